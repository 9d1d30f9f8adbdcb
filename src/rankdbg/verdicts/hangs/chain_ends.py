"""What a chain of waits ends with: why it does not go on there, and what to do about it.

The sign of a rank is about its own wait, the first link. Where the chain leads further, the advice is
about its last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rankdbg.verdicts.hangs.accusations import Accusation
from rankdbg.verdicts.hangs.hang_rules import HangRule, Sign
from rankdbg.verdicts.waits.thread_links import NO_THREAD, is_certain_circle, is_copied
from rankdbg.verdicts.waits.wait_chains import NO_OTHER
from rankdbg.verdicts.waits.wait_links import LOCK_OF_FILE, Link, ProcessPlace, place_of

CIRCLE = HangRule(
    cause="wait-circle",
    role="own",
    says="waiting for a process that waits for it",
    why="These processes wait for each other: none of them can continue.",
    fix="break the circle: read or close the pipe that the other process waits at, release the lock "
    "before the call, or give one of the waits a timeout",
)
# Signs that say through what a rank waits, and not why that does not come.
_OF_FIRST_LINKS = {
    "waits-for-thread", "waits-for-queue", "thread-join", "waits-for-network", "waits-for-pipe",
    "waits-for-child", "waits-for-pool", "waits-for-lock", "exit-blocked", "file-lock", "sleeping",
    "waits-for-file", "unknown",
}  # fmt: skip


def name_end(accused: Accusation, ranks: Mapping[ProcessPlace, Sign]) -> Accusation:
    """With what its chain ends in, if its sign is about the first link. `ranks`: all of them."""
    if not accused.behind or not accused.signs or accused.cause not in _OF_FIRST_LINKS:
        return accused
    if accused.cause == "sleeping" and accused.behind[0].thing.startswith(LOCK_OF_FILE):
        accused = _naming_lock(accused)
    if _is_circle(accused.behind):
        return replace(accused, cause=CIRCLE.cause, why=CIRCLE.why, next=CIRCLE.fix)
    last = accused.behind[-1]
    if last.whom.place in {place_of(rank) for rank in accused.ranks}:
        return accused  # it waits for nothing that is known
    there = accused.signs[0].seen.command_prefix
    if last.whom.state and last.whom.place is not None:
        pid = last.whom.place.pid
        why = f"Process {pid}, which owes it, is {last.whom.state}."
        return replace(accused, why=why, next=f"resume or end that process: {there}ps -fp {pid}")
    if last.whom.name == NO_OTHER:
        # The sign of one that opens a named pipe is about this end already.
        is_said = accused.cause == "waits-for-file" and len(accused.behind) == 1
        return accused if is_said else _without_other_end(accused)
    if last.whom.name == NO_THREAD:
        why = "No thread of the process is in code that would provide it: the one that should has ended, or never gets there."
        return replace(accused, why=why)
    if accused.signs[0].child is not None:  # whose sign has advice of its own
        return accused
    if last.whom.place is not None and last.whom.place != accused.behind[0].who.place:
        look = f"{there}ps -fp {last.whom.place.pid}"
        if (rank := ranks.get(last.whom.place)) is not None:
            look = f"rankdbg stacks {rank.words['rank']} --threads all"
        who = "the holder" if last.thing.endswith("held by") else "that process"
        return replace(accused, next=f"look at {who}: {look}")
    return accused


def _naming_lock(accused: Accusation) -> Accusation:
    """Of a file, which one that sleeps between tries to take it has not got."""
    lock = accused.behind[0].thing.partition(", for which")[0]
    says = f"trying again and again to take {lock}, in {accused.signs[0].words['place']}"
    why = "Another process holds the lock on that file."
    return replace(accused, cause="file-lock", says=says, why=why)


def ends_for_good(chain: Sequence[Link]) -> bool:
    """Whether what it ends with cannot go on by itself: a process that is stopped, a pipe of which no
    process has the other end, a lock that a fork has copied, or threads that hold each other's locks.
    Whatever the rank was doing, it is not at work."""
    if not chain:
        return False
    last = chain[-1].whom
    is_lost = bool(last.state) or last.name == NO_OTHER
    return is_lost or any(map(is_copied, chain)) or is_certain_circle(chain)


def _is_circle(chain: tuple[Link, ...]) -> bool:
    """Whether it comes back to a process that it has left for another one."""
    places = [link.who.place for link in chain if link.who.place]
    last = chain[-1].whom.place
    return last is not None and last in places and len({*places}) > 1


def _without_other_end(accused: Accusation) -> Accusation:
    """A child that has died may have had it."""
    children = accused.signs[0].seen.after.children
    dead = next((child for child in children if child.state in ("Z", "X")), None)
    if dead is None:
        why = "No other process has the other end open: the one that should has ended, or has not started."
        return replace(accused, why=why, next="check the process that should open the other end")
    why = f"Its child process {dead.pid}, which is dead, had the other end: nothing more arrives."
    fix = "check the child's exit status, and dmesg for an OOM kill"
    says = f"{accused.says}; child process {dead.pid} is dead"
    return replace(accused, cause="child-died", says=says, why=why, next=fix)
