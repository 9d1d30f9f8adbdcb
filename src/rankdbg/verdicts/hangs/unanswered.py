"""Ranks that connect to each other and get no answer: the packets do not arrive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rankdbg.types import Rank
from rankdbg.wire.node_answers import Addresses

_LOOPBACK = "127.", "[::1]"


@dataclass(frozen=True)
class Unanswered:
    """`rank` connects to an address at which `listener` listens."""

    rank: Rank
    address: str
    listener: Rank


def between(found: Iterable[tuple[Rank, Addresses]]) -> list[Unanswered]:
    """Those of ranks among each other. What else a rank connects to (telemetry, a storage service)
    holds no collective up."""
    found = [*found]
    listeners = {
        (address, rank.host if address.startswith(_LOOPBACK) else ""): rank
        for rank, its in found
        for address in its.listening
    }
    return [
        Unanswered(rank, address, listener)
        for rank, its in found
        for address in its.unanswered
        if (listener := listeners.get((address, ""), listeners.get((address, rank.host))))
        is not None
    ]
