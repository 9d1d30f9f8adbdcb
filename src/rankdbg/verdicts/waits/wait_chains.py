"""From a rank that waits for a pipe, a connection, a lock, a thread or a child to whoever owes it.

Facts of the ranks' machines -> links, one after another, until a process or thread is reached that
waits for nothing known, or that is in the chain already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.waits import mutex_links, store_links, thread_links
from rankdbg.verdicts.waits.wait_links import (
    LOCK_OF_FILE,
    MOUNT,
    Link,
    Party,
    ProcessPlace,
    place_of,
    process_at,
)
from rankdbg.wire.answers import ThreadWaits, WaitingThread
from rankdbg.wire.node_answers import (
    AwaitedMutex,
    AwaitedThing,
    ThreadThings,
    WaitingProcess,
    WaitOwners,
)

# What a process does, and through what it waits.
_REASONS = {
    "pipe": ("waits at {name} for", "{name}, of"),
    "fifo": ("waits for the named pipe {name} to be opened by", "the named pipe {name}, opened by"),
    "socket": ("waits at {name} for", "{name}, of"),
    "connection": ("waits at a {name} for", "a {name}, of"),
    "listener": (
        "waits at {name} to be accepted by",
        "{name}, which has not been accepted by",
    ),
    "lock": (f"waits for {LOCK_OF_FILE}{{name}}, held by", f"{LOCK_OF_FILE}{{name}}, held by"),
    "polled": (
        "sleeps, and tries again to lock {name}, locked by",
        f"{LOCK_OF_FILE}{{name}}, for which it tries again and again, held by",
    ),
    "child": ("waits for the end of", "its child"),
    "mount": ("waits for the file system {name}, served by", f"{MOUNT}{{name}}, served by"),
}
_SHARED = ("connection", "socket")  # inherited by what a process forks
_MANY = 3  # processes are named one by one
NO_OTHER = "no other process"  # has the other end of a pipe


@dataclass(frozen=True)
class OwnerEvidence:
    """By rank, what its node says; and the ranks that have the other ends of connections, by their
    own local and remote address."""

    owners: Mapping[ProcessKey, WaitOwners] = field(default_factory=dict)
    ends: Mapping[tuple[str, str], Rank] = field(default_factory=dict)
    threads: Mapping[ProcessKey, ThreadWaits] = field(default_factory=dict)  # by agents
    of_threads: Mapping[ProcessKey, WaitOwners] = field(default_factory=dict)  # what those wait for
    starved: frozenset[ProcessPlace] = frozenset()  # that owe something, and get no processor

    @cached_property
    def facts(self) -> dict[ProcessPlace, WaitingProcess]:
        """All processes that were looked at."""
        return {
            ProcessPlace(key.host, process.pid): process
            for each in (self.of_threads, self.owners)
            for key, told in each.items()
            for process in told.processes
        }

    @cached_property
    def thread_facts(self) -> dict[ProcessPlace, ThreadWaits]:
        return {ProcessPlace(*key[:2]): waits for key, waits in self.threads.items()}

    @cached_property
    def kernel_threads(self) -> dict[tuple[ProcessPlace, int], ThreadThings]:
        """What threads wait for in the kernel, by their numbers there."""
        return {
            (ProcessPlace(key.host, thread.pid or key.pid), thread.native): thread
            for each in (self.owners, self.of_threads)
            for key, told in each.items()
            for thread in told.threads
        }

    def mutex_of(self, place: ProcessPlace, native: int) -> AwaitedMutex | None:
        """For which a thread waits."""
        if (thread := self.kernel_threads.get((place, native))) is not None:
            return thread.mutex
        is_main = native == place.pid and place in self.facts
        return self.facts[place].mutex if is_main else None


class _Step(NamedTuple):
    """A thread of a process at which a chain has arrived."""

    place: ProcessPlace
    thread: int = thread_links.MAIN
    native: int = 0  # of one that is known by the kernel's number alone


def unjoined(owners: Iterable[WaitOwners]) -> list[tuple[str, str]]:
    """Connections whose other end is on no machine that was asked, as that end has them."""
    told = [*owners]
    things = [thing for each in told for process in each.processes for thing in process.things]
    things += [thing for each in told for thread in each.threads for thing in thread.things]
    return [(t.remote, t.local) for t in things if t.kind == "connection" and not t.owners]


def of_ranks(ranks: Iterable[Rank], evidence: OwnerEvidence) -> dict[ProcessKey, tuple[Link, ...]]:
    """Of each rank whose wait leads to another process or thread."""
    looked_at = [
        rank
        for rank in ranks
        if any(rank.process in e for e in (evidence.owners, evidence.threads, evidence.of_threads))
    ]
    followed = {rank.process: follow(rank, evidence) for rank in looked_at}
    return {process: links for process, links in followed.items() if links}


def follow(rank: Rank, evidence: OwnerEvidence) -> tuple[Link, ...]:
    """Empty if its wait leads to no other process or thread."""
    links: list[Link] = []
    step: _Step | None = _Step(place_of(rank))
    seen: set[_Step] = set()
    while step is not None and step not in seen:
        seen.add(step)
        link, step = next(_links(step, evidence), (None, None))
        if link is not None:
            links.append(link)
    return tuple(links)


def _links(step: _Step, evidence: OwnerEvidence) -> Iterator[tuple[Link, _Step | None]]:
    """What a thread waits for, and by whom that is owed."""
    place = step.place
    waits = evidence.thread_facts.get(place, ThreadWaits())
    who = _who(step, evidence)
    mutex = evidence.mutex_of(place, _native(step, waits))
    # The owner of a mutex is certain; that of a lock of Python, seen from outside, is not.
    if not step.native and not (waits.outside and mutex is not None):
        for link, owner in thread_links.links(place, who, step.thread, waits):
            yield link, None if owner is None else _Step(place, owner)
    if step == _Step(place):
        for link, other in store_links.links(place, who, evidence.thread_facts):
            yield link, None if other is None else _Step(other)
            return  # the connection to the store says less
    if mutex is not None and not mutex.holder:
        yield mutex_links.copied(place, who, mutex), None
    elif mutex is not None:
        holder = _holder(place, mutex.holder, waits)
        yield mutex_links.link(place, who, _whom(holder, evidence), mutex), holder
    for link in _to_processes(place, who, _things(step, evidence), evidence):
        yield link, _Step(link.whom.place) if link.whom.place else None


def _native(step: _Step, waits: ThreadWaits) -> int:
    """The kernel's number; 0 for a task, which has none."""
    found = None if step.native else thread_links.find(waits, step.thread)
    if found is not None and found.native:
        return found.native
    return step.native or (step.place.pid if step.thread == thread_links.MAIN else 0)


def _holder(place: ProcessPlace, native: int, waits: ThreadWaits) -> _Step:
    known = mutex_links.find(place, native, waits.threads)
    return _Step(place, native=native) if known is None else _Step(place, known)


def _things(step: _Step, evidence: OwnerEvidence) -> tuple[AwaitedThing, ...]:
    """For which a thread waits in the kernel."""
    place = step.place
    waits = evidence.thread_facts.get(place, ThreadWaits())
    found = None if step.native else thread_links.find(waits, step.thread)
    of_main = evidence.facts[place].things if place in evidence.facts else ()
    if found is not None and found.task:
        return tuple(thing for thing in of_main if _is_awaited(thing, found))
    if step == _Step(place) and of_main:
        return of_main
    known = evidence.kernel_threads.get((place, _native(step, waits)))
    return known.things if known else ()


def _is_awaited(thing: AwaitedThing, task: WaitingThread) -> bool:
    """Whether that is what a task waits for, of all that its event loop does."""
    if task.child:
        return thing.kind == "child" and task.child in thing.owners
    return task.descriptor >= 0 and thing.descriptor == task.descriptor


def _who(step: _Step, evidence: OwnerEvidence) -> Party:
    if step != _Step(step.place):
        return _whom(step, evidence)
    known = evidence.facts.get(step.place)
    return process_at(step.place) if known is None else _party(step.place.host, known)


def _whom(step: _Step, evidence: OwnerEvidence) -> Party:
    """A thread, also the main one."""
    waits = evidence.thread_facts.get(step.place, ThreadWaits())
    found = None if step.native else thread_links.find(waits, step.thread)
    if found is not None:
        return thread_links.party(step.place, found)
    native = step.native or step.place.pid
    known = evidence.kernel_threads.get((step.place, native))
    return mutex_links.party(step.place, native, known)


def _to_processes(
    place: ProcessPlace, who: Party, things: Sequence[AwaitedThing], evidence: OwnerEvidence
) -> Iterator[Link]:
    facts = evidence.facts
    for thing in things:
        owners = [ProcessPlace(place.host, pid) for pid in thing.owners]
        known = [facts[owner] for owner in owners if owner in facts]
        reason, through = (text.format(name=thing.name) for text in _REASONS[thing.kind])
        evidence_of = _beside(thing)
        choose = _first_to_act if thing.kind in _SHARED else _last_to_act
        known = choose(place.host, known, facts)
        if len(known) == 1:
            whom = _party(place.host, known[0])
            yield Link(who, reason, whom, evidence_of, through, thing.unread)
        elif known:
            yield Link(who, reason, _several(known), thing=through)
        elif (other := evidence.ends.get((thing.remote, thing.local))) is not None:
            whom = process_at(place_of(other))
            yield Link(who, reason, whom, thing=through)
        elif thing.kind == "mount":
            server = Party("process", "", thing.remote or "a server that is not known")
            yield Link(who, reason, server, evidence_of, through)
        elif thing.kind == "fifo" or (thing.kind == "pipe" and len(things) == 1):
            yield Link(who, reason, Party("process", "", NO_OTHER), thing=through)


def _first_to_act(
    host: str, owners: list[WaitingProcess], facts: Mapping[ProcessPlace, WaitingProcess]
) -> list[WaitingProcess]:
    """The one that waits for all others of them: what it has forked has its connections, too."""
    pids = {owner.pid for owner in owners}
    for owner in owners:
        if len(pids) > 1 and pids - {owner.pid} <= _awaited_by(host, owner, facts):
            return [owner]
    return owners


def _last_to_act(
    host: str, owners: list[WaitingProcess], facts: Mapping[ProcessPlace, WaitingProcess]
) -> list[WaitingProcess]:
    """Without those that wait for another one of them, as the commands of a shell's pipeline do."""
    pids = {owner.pid for owner in owners}
    if len(pids) < 2:
        return owners
    last = [each for each in owners if not _awaited_by(host, each, facts) & (pids - {each.pid})]
    return last or owners


def _awaited_by(
    host: str, process: WaitingProcess, facts: Mapping[ProcessPlace, WaitingProcess]
) -> set[int]:
    """All for whom it waits, however many are between."""
    seen: set[int] = set()
    ahead = [process]
    while ahead:
        new = {pid for thing in ahead.pop().things for pid in thing.owners} - seen
        seen |= new
        ahead += [facts[place] for pid in new if (place := ProcessPlace(host, pid)) in facts]
    return seen


def _beside(thing: AwaitedThing) -> tuple[str, ...]:
    """Others that wait for the same file system: it is not this process that is at fault."""
    if not thing.beside:
        return ()
    pids = ", ".join(map(str, thing.beside[:_MANY]))
    more = f" and {len(thing.beside) - _MANY} more" if len(thing.beside) > _MANY else ""
    return (f"processes {pids}{more} wait for the same file system",)


def _party(host: str, process: WaitingProcess) -> Party:
    about = [process.command or "?"]
    about += [f"of {process.user}"] if process.user else []
    about += [process.state] if process.state else []
    name = f"pid {process.pid} ({', '.join(about)})"
    return process_at(ProcessPlace(host, process.pid), name, process.state)


def _several(owners: Sequence[WaitingProcess]) -> Party:
    pids = ", ".join(str(owner.pid) for owner in owners[:_MANY])
    more = f" and {len(owners) - _MANY} more" if len(owners) > _MANY else ""
    return Party("process", pids, f"one of the processes {pids}{more}")
