"""Threads of one process that wait for a mutex of C: what the kernel and its memory tell -> links."""

from __future__ import annotations

from rankdbg.verdicts.waits import thread_links
from rankdbg.verdicts.waits.wait_links import MUTEX, Link, Party, ProcessPlace
from rankdbg.wire.answers import WaitingThread
from rankdbg.wire.node_answers import AwaitedMutex, ThreadThings


def link(place: ProcessPlace, who: Party, whom: Party, mutex: AwaitedMutex) -> Link:
    proof = f"the mutex at {mutex.address:#x} of process {place.pid} has thread {mutex.holder} as its owner"
    return Link(who, f"waits for {MUTEX}", whom, (proof,), MUTEX)


def copied(place: ProcessPlace, who: Party, mutex: AwaitedMutex) -> Link:
    """One that a thread of the parent held when this process was forked."""
    proof = (
        f"the mutex at {mutex.address:#x} of process {place.pid} has a thread of its parent as its "
        "owner"
    )
    return Link(who, f"waits for {MUTEX}", thread_links.copied_thread(), (proof,), MUTEX)


def find(place: ProcessPlace, native: int, threads: tuple[WaitingThread, ...]) -> int | None:
    """The thread with the kernel's number, as an agent numbers it; None if it knows none."""
    known = next((thread for thread in threads if thread.native == native), None)
    if known is not None:
        return thread_links.number_of(known)
    return thread_links.MAIN if native == place.pid else None


def party(place: ProcessPlace, native: int, known: ThreadThings | None) -> Party:
    """A thread of which no agent tells."""
    if native == place.pid:
        return thread_links.main_party(place, known.where if known else None)
    known = known or ThreadThings(native)
    name = f"thread {known.name or native}"
    if known.where is not None:
        name += f" ({thread_links.frame_text(known.where)})"
    elif known.call:
        name += f" (in the system call {known.call})"
    return Party("thread", f"{place.host}/{place.pid}/native {native}", name)
