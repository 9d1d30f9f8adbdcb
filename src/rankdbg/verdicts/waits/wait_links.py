"""Who waits for whom: parties of a job and the links between them, as a graph of waits has them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rankdbg.types import Rank

PartyKind = Literal["process", "thread", "task", "actor", "placement group", "object"]


MOUNT = "the file system "  # with this, the words for a wait for one begin
LOCK_OF_FILE = "the lock of "
MUTEX = "a mutex, held by"


class ProcessPlace(NamedTuple):
    """A process, as schedulers name it."""

    host: str
    pid: int


def place_of(rank: Rank) -> ProcessPlace:
    return ProcessPlace(rank.host, rank.pid)


@dataclass(frozen=True)
class Party:
    """One that waits, or is waited for."""

    kind: PartyKind
    id: str
    name: str  # as a user knows it; that of a process comes from its rank
    place: ProcessPlace | None = None  # of a process
    state: str = ""  # of a process, in words, if it cannot run


@dataclass(frozen=True)
class Link:
    who: Party
    reason: str  # "waits in ray.get() for"
    whom: Party
    evidence: tuple[str, ...] = ()
    thing: str = ""  # through which it waits: "the lock of /data/index, held by"
    unread: int = 0  # bytes that it has sent to that process, and that were not read


def last_place(links: Sequence[Link]) -> ProcessPlace | None:
    """The process in which a chain ends, itself or one of its threads."""
    parties = [party for link in links for party in (link.who, link.whom)]
    if parties and parties[-1].kind not in ("process", "thread"):
        return parties[-1].place
    return next((party.place for party in reversed(parties) if party.place), None)


def last_of(links: Sequence[Link], places: Collection[ProcessPlace]) -> ProcessPlace | None:
    """The last process of a chain that is one of these. What follows belongs to it: a child of a
    rank, or a stranger that the rank waits for."""
    parties = [party for link in links for party in (link.who, link.whom)]
    return next((p.place for p in reversed(parties) if p.place and p.place in places), None)


def process_at(place: ProcessPlace, name: str = "", state: str = "") -> Party:
    name = name or f"process {place.pid}"
    return Party("process", f"{place.host}/{place.pid}", name, place, state)
