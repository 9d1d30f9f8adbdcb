"""What tests ask about a roster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from rankdbg.types import Rank


def numbers(ranks: Sequence[Rank]) -> list[int]:
    return sorted(rank.number for rank in ranks if rank.kind == "rank" and rank.number is not None)


def kinds(ranks: Sequence[Rank]) -> dict[str, int]:
    return dict(Counter(rank.kind for rank in ranks))


def of_kind(ranks: Sequence[Rank], kind: str) -> list[Rank]:
    return sorted((rank for rank in ranks if rank.kind == kind), key=lambda rank: rank.pid)


def all_wait(count: int) -> Callable[[Sequence[Rank]], bool]:
    """So many ranks are there, and all have arrived in programs/run_waiting.py."""

    def arrived(ranks: Sequence[Rank]) -> bool:
        places = [r.where.function if r.where else "" for r in ranks if r.kind == "rank"]
        return places == ["waits"] * count

    return arrived


def has_kinds(count: int, **wanted: int) -> Callable[[Sequence[Rank]], bool]:
    """So many ranks wait, and there are so many launchers, helpers and children beside them."""
    waiting = all_wait(count)
    return lambda ranks: waiting(ranks) and kinds(ranks) == {"rank": count, **wanted}
