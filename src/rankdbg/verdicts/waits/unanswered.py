"""Ranks that get no answer from each other: the packets do not arrive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rankdbg.types import Rank
from rankdbg.wire.node_answers import Addresses

_LOOPBACK = "127.", "[::1]"


@dataclass(frozen=True)
class Unanswered:
    """A rank that connects to another one, or has sent it data, and gets no answer."""

    rank: Rank
    address: str  # of the other one
    other: Rank


def between(
    found: Sequence[tuple[Rank, Addresses]], ends: Mapping[tuple[str, str], Rank]
) -> list[Unanswered]:
    """Those of ranks among each other. What else a rank connects to (telemetry, a storage service)
    holds no collective up. `ends`: the ranks that have the other end of a connection."""
    listeners = {_place(address, rank): rank for rank, its in found for address in its.listening}
    return [
        Unanswered(rank, remote, other)
        for rank, its in found
        for local, remote in its.unanswered
        if (other := ends.get((remote, local)) or listeners.get(_place(remote, rank))) is not None
    ]


def _place(address: str, rank: Rank) -> tuple[str, str]:
    """The loopback of one machine is not that of another."""
    return address, rank.host if address.startswith(_LOOPBACK) else ""


def fewest(links: Sequence[Unanswered]) -> list[Rank]:
    """The ranks that explain all of it: of the one node or the one rank that all these connections
    have in common, else those that get no answer."""
    for part in _host, _process:
        pairs = [{part(link.rank), part(link.other)} for link in links]
        common = set.intersection(*pairs)
        if len(common) == 1 and all(len(pair) == 2 for pair in pairs):
            return [rank for rank in _all(links) if part(rank) in common]
    return [link.rank for link in links]


def _host(rank: Rank) -> object:
    return rank.host


def _process(rank: Rank) -> object:
    return rank.process


def _all(links: Iterable[Unanswered]) -> list[Rank]:
    return [rank for link in links for rank in (link.rank, link.other)]
