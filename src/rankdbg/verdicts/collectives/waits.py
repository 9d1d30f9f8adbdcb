"""Who waits for whom: each rank by the first operation that it has not left.

A rank that waits for one that waits itself is held up by the one for which that one waits, in
whatever group: the edges are followed to those that wait for no other rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rankdbg.verdicts.collectives.mismatches import Mismatch
from rankdbg.verdicts.collectives.process_groups import ProcessGroup, TracedJob
from rankdbg.verdicts.collectives.traces import Operation

Why = Literal["missing", "absent", "mismatch", "elsewhere", "together", "behind"]


# No rank comes out of these before all have gone in.
_COMPLETE = {
    "all_reduce",
    "allreduce",
    "all_gather",
    "_all_gather_base",
    "all_gather_into_tensor",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_tensor",
    "all_to_all",
    "barrier",
}


@dataclass(frozen=True)
class Wait:
    """A rank, the operation that it is in, and those for whom it waits there."""

    rank: int
    group: ProcessGroup
    operation: Operation
    why: Why  # what the others have not done
    others: tuple[int, ...]  # none: the rank itself does not come on


def find_waits(
    job: TracedJob, mismatches: Sequence[Mismatch], longer_than: float
) -> dict[int, Wait]:
    firsts: dict[int, tuple[ProcessGroup, Operation]] = {}
    for rank in job.ranks:
        for op in job.traces[rank].pending(longer_than)[:1]:
            firsts[rank] = job.group(rank, op.group), op
    at: dict[tuple[ProcessGroup, int], list[Mismatch]] = {}
    for mismatch in mismatches:
        if mismatch.pending:
            at.setdefault((mismatch.group, mismatch.number), []).append(mismatch)
    # What a collective lacks is the same for all that are in it, and there may be thousands.
    lacking: dict[tuple[ProcessGroup, int], tuple[Why, tuple[int, ...]]] = {}
    waits = {}
    for rank, (group, op) in firsts.items():
        key = group, op.number
        if op.point_to_point and group.certain:
            lack = _lack(job, rank, group, op, firsts)
        elif op.point_to_point:
            continue  # its ends are ranks of a group that no recorder knows
        else:
            if key not in lacking:
                lacking[key] = _lack(job, rank, group, op, firsts)
            lack = lacking[key]
            lack = _lack_by_mismatch(rank, at.get(key, ()), lack) or lack
        waits[rank] = Wait(rank, group, op, *_without(rank, *lack))
    return waits


def _lack(
    job: TracedJob,
    rank: int,
    group: ProcessGroup,
    op: Operation,
    firsts: Mapping[int, tuple[ProcessGroup, Operation]],
) -> tuple[Why, tuple[int, ...]]:
    """For whom this operation waits, and why."""
    others = job.others(rank, group, op)
    entered = {other: job.entered(other, group, op) for other in others}
    missing = [other for other in others if entered[other] is False]
    absent = [other for other in others if job.traces[other].absent]
    if missing:
        # One rank that left no evidence is a sign; most of a group without is a look at a part.
        signs = absent if len(absent) * 2 <= len(group.members) else []
        return "missing", tuple(sorted([*missing, *signs]))
    came = [other for other in others if entered[other]]
    if op.name in _COMPLETE and any(_has_finished(job, other, group, op) for other in came):
        return _inside(job, rank, group, op, firsts, others)
    if absent:
        return "absent", tuple(absent)
    unknown = [other for other in others if entered[other] is None]
    if unknown:
        return "missing", tuple(unknown)
    return _inside(job, rank, group, op, firsts, others)


def _inside(
    job: TracedJob,
    rank: int,
    group: ProcessGroup,
    op: Operation,
    firsts: Mapping[int, tuple[ProcessGroup, Operation]],
    others: Sequence[int],
) -> tuple[Why, tuple[int, ...]]:
    """All have entered: who of them is held up in something earlier?"""
    idle = tuple(other for other in job.ranks if other not in firsts)
    if not group.certain and idle and len(idle) * 2 <= len(job.ranks):
        # A rank must be missing, and these alone wait for nothing.
        return "missing", idle
    elsewhere = [o for o in others if o in firsts and not _is_same(firsts[o], group, op)]
    inside = tuple(o for o in elsewhere if not _has_finished(job, o, group, op))
    if inside:
        return "elsewhere", inside
    apart = {*elsewhere}
    together = [o for o in others if o in firsts and o not in apart]
    if together and len(together) == len(others):
        return "together", (rank, *together)
    return "behind", ()


def _lack_by_mismatch(
    rank: int, mismatches: Sequence[Mismatch], lack: tuple[Why, tuple[int, ...]]
) -> tuple[Why, tuple[int, ...]] | None:
    """Those with another operation are waited for; they themselves wait for no other, unless
    nothing tells which of two sides is the odd one."""
    for mismatch in mismatches:
        if rank in mismatch.odd:
            return "mismatch", mismatch.usual if mismatch.even else ()
    odd = {other for mismatch in mismatches for other in mismatch.odd}
    missing = lack[1] if lack[0] == "missing" else ()
    return ("mismatch", tuple(sorted(odd | {*missing}))) if odd else None


def _without(rank: int, why: Why, others: tuple[int, ...]) -> tuple[Why, tuple[int, ...]]:
    if why == "together":
        # One edge each makes them a circle; all to all would be a million for a thousand.
        place = others.index(rank)
        return why, (others[place - 1],)
    return why, others


def _is_same(first: tuple[ProcessGroup, Operation], group: ProcessGroup, op: Operation) -> bool:
    other_group, other = first
    if other_group != group or other.point_to_point != op.point_to_point:
        return False
    return other.ends == op.ends if op.point_to_point else other.number == op.number


def _has_finished(job: TracedJob, rank: int, group: ProcessGroup, op: Operation) -> bool:
    if not op.point_to_point:
        own = job.collectives(rank, group).get(op.number)
        if own is not None:
            return own.finished
        # It has entered, and what was left out of the dump has finished.
        return True
    return not any(
        other.ends == op.ends and not other.finished for other in job.operations(rank, group)
    )


def final_sets(waits: Mapping[int, Wait]) -> list[frozenset[int]]:
    """The ranks at the ends of all chains: alone, or a circle of ranks that wait for each
    other and for no third."""
    nodes = set(waits) | {other for wait in waits.values() for other in wait.others}
    edges = {node: waits[node].others if node in waits else () for node in nodes}
    found = []
    for circle in _circles(edges):
        outside = any(other not in circle for node in circle for other in edges[node])
        if not outside:
            found.append(circle)
    return sorted(found, key=min)


def _circles(edges: Mapping[int, Iterable[int]]) -> list[frozenset[int]]:
    """Strongly connected sets (Tarjan's, without recursion: a chain may be long)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    circles: list[frozenset[int]] = []
    for root in sorted(edges):
        if root in order:
            continue
        work = [(root, iter(edges[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, remaining = work[-1]
            following = next(remaining, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    start = stack.index(node)
                    circles.append(frozenset(stack[start:]))
                    on_stack -= circles[-1]
                    del stack[start:]
            elif following not in order:
                order[following] = low[following] = len(order)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(edges[following])))
            elif following in on_stack:
                low[node] = min(low[node], order[following])
    return circles
