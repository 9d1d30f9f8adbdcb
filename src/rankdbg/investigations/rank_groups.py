"""Ranks folded by role, state and place: equal ones once, few against many marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from rankdbg import grouping
from rankdbg.investigations.rank_labels import Paths, label
from rankdbg.types import Rank

# With more, lines of one function are one group.
MOST_GROUPS = 20


@dataclass(frozen=True)
class RankGroup:
    """Ranks in one state at one place. `ranks`: their numbers in few characters; `line`: file and
    line; `is_odd`: few against a clear majority of their role."""

    members: tuple[Rank, ...]
    ranks: str
    role: str
    state: str
    function: str
    line: str
    detail: str
    is_odd: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """What all members have in common."""
        return self.role, self.state, self.function, self.line, self.detail

    @property
    def mark(self) -> str:
        if not self.is_odd:
            return ""
        return "alone here" if len(self.members) == 1 else "few here"


def fold_ranks(ranks: Sequence[Rank]) -> list[RankGroup]:
    """The largest group first."""
    paths = Paths(rank.where.file for rank in ranks if rank.where)

    def key(rank: Rank) -> tuple[str, ...]:
        where = (rank.where.function, paths.line(rank.where)) if rank.where else ("", "")
        return (rank.role, rank.state, *where, rank.detail)

    groups = grouping.group_equal((rank, key(rank)) for rank in ranks)
    if len(groups) > MOST_GROUPS:

        def coarse(rank: Rank) -> tuple[str, ...]:
            role, state, function, line, _ = key(rank)
            return (role, state, function, line.partition(":")[0], "")

        groups = grouping.group_equal((rank, coarse(rank)) for rank in ranks)
    odd = _odd_in_their_roles(groups)
    has_roles = len({rank.role for rank in ranks}) > 1
    made = []
    for (value, members), is_odd in zip(groups, odd, strict=True):
        role, state, function, line, detail = cast("tuple[str, ...]", value)
        among = [rank for rank in ranks if rank.role == role] if has_roles else ranks
        shown = label(members, among)
        made.append(RankGroup(tuple(members), shown, role, state, function, line, detail, is_odd))
    return made


def _odd_in_their_roles(groups: list[tuple[object, list[Rank]]]) -> list[bool]:
    """Outliers among ranks of the same role: a single driver is not one."""
    odd = [False] * len(groups)
    places: dict[str, list[int]] = {}
    for place, (_, members) in enumerate(groups):
        places.setdefault(members[0].role, []).append(place)
    for same in places.values():
        marks = grouping.odd_ones_out([len(groups[place][1]) for place in same])
        for place, mark in zip(same, marks, strict=True):
            odd[place] = mark
    return odd
