"""Ranks that wait for each other in two collectives: which of them have left the common order?

Before the same collective of one group, ranks have entered as many of another kind of group, say
of their data-parallel groups. The ranks outside of the circle tell how many; else the earlier
collectives do. Whoever has entered another number is the one that has left the order, whether
most of the circle did so or a single rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from rankdbg.process.dimensions import dimension_of
from rankdbg.verdicts.collectives.process_groups import ProcessGroup, TracedJob
from rankdbg.verdicts.collectives.traces import Operation
from rankdbg.verdicts.collectives.waits import Wait

_ENOUGH = 2  # earlier collectives tell what is usual


@dataclass(frozen=True)
class CountDifference:
    """Ranks that have entered another number of collectives before one than the others."""

    ranks: tuple[int, ...]
    before: Wait  # one that is in the collective before which is counted
    counted: ProcessGroup  # as one of these ranks knows it
    entered: int  # by these ranks; so far, if they are not yet in that collective
    usual: int
    by_peers: bool  # else by what was entered before earlier ones


def find_departure(
    job: TracedJob, circle: Iterable[int], waits: Mapping[int, Wait]
) -> CountDifference | None:
    """None if the histories do not tell, or are too short."""
    members = sorted(circle)
    inside = [waits[rank] for rank in members]
    if any(wait.operation.point_to_point for wait in inside):
        return None
    sides = {(wait.group, wait.operation.number): wait for wait in inside}
    if len(sides) != 2:
        return None
    one, other = sides.values()
    for before, counted in ((one, other), (other, one)):
        kind = _kind(counted.group)
        if kind == _kind(before.group):
            continue
        for usual, by_peers in _usual_counts(job, members, before, kind):
            left = [rank for rank in members if not _fits(job, waits[rank], before, kind, usual)]
            if 0 < len(left) < len(members):
                return _departure(job, left, before, kind, usual, by_peers)
    return None


def _kind(group: ProcessGroup) -> str:
    """What groups of different ranks have in common: their dimension, else their size."""
    return dimension_of(group.description) or group.description or f"of {len(group.members)}"


def _departure(
    job: TracedJob, left: list[int], before: Wait, kind: str, usual: int, by_peers: bool
) -> CountDifference:
    counted = _of_kind(job, left[0], kind)[-1]
    entered = _entered_before(job, left[0], before, kind)
    return CountDifference(
        tuple(left),
        before,
        job.group(left[0], counted.group),
        counted.number if entered is None else entered,
        usual,
        by_peers,
    )


def _usual_counts(
    job: TracedJob, circle: list[int], before: Wait, kind: str
) -> Iterable[tuple[int, bool]]:
    """How many others have entered before this one; and how many it should be by earlier ones."""
    peers = {
        _entered_before(job, rank, before, kind)
        for rank in before.group.members
        if rank not in circle
    } - {None}
    if len(peers) == 1:
        yield from ((count, True) for count in peers if count is not None)
    expected = {_expected(job, rank, before, kind) for rank in circle}
    if len(expected) == 1:
        yield from ((count, False) for count in expected if count is not None)


def _expected(job: TracedJob, rank: int, before: Wait, kind: str) -> int | None:
    """By the same number of collectives between each two earlier ones."""
    number = before.operation.number
    counts = [
        _last_number(job, rank, kind, op)
        for op in job.operations(rank, before.group)
        if not op.point_to_point and op.number < number
    ]
    known = [count for count in counts if count is not None]
    steps = {b - a for a, b in pairwise(known)}
    if len(known) <= _ENOUGH or len(steps) != 1:
        return None
    return known[-1] + steps.pop()


def _fits(job: TracedJob, wait: Wait, before: Wait, kind: str, usual: int) -> bool:
    entered = _entered_before(job, wait.rank, before, kind)
    if entered is not None:
        return entered == usual
    # It has not come to that collective, and may yet enter what is missing.
    return wait.operation.number <= usual


def _entered_before(job: TracedJob, rank: int, before: Wait, kind: str) -> int | None:
    """None if it has not entered that collective, or nothing tells."""
    op = job.collectives(rank, before.group).get(before.operation.number)
    return None if op is None else _last_number(job, rank, kind, op)


def _last_number(job: TracedJob, rank: int, kind: str, before: Operation) -> int | None:
    """Of the collectives of this kind of group: the number of the last one before an operation."""
    earlier = [
        op
        for op in _of_kind(job, rank, kind)
        if (op.created, op.record) < (before.created, before.record)
    ]
    if len({op.group for op in earlier}) != 1:
        return None  # none, or of two groups of one kind
    return earlier[-1].number


def _of_kind(job: TracedJob, rank: int, kind: str) -> list[Operation]:
    return [
        op
        for op in job.traces[rank].operations
        if not op.point_to_point and _kind(job.group(rank, op.group)) == kind
    ]
