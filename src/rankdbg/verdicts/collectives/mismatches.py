"""Ranks that came to the same place of a group with different operations."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from rankdbg.verdicts.collectives.process_groups import ProcessGroup, TracedJob
from rankdbg.verdicts.collectives.traces import Operation, Sizes

Kind = Literal["operation", "order", "size", "dtype"]

# Whose tensors must be alike in all ranks, of those that are put in or that come out. What is
# not here may differ: all_to_all as it likes, all_gather of lists its inputs, gather and
# scatter have tensors at their root alone.
_ALIKE = {
    "all_reduce": "both",
    "allreduce": "both",
    "broadcast": "both",
    "reduce": "both",
    "all_gather": "output",
    "_all_gather_base": "both",
    "all_gather_into_tensor": "both",
    "reduce_scatter": "input",
    "_reduce_scatter_base": "both",
    "reduce_scatter_tensor": "both",
}


@dataclass(frozen=True)
class Mismatch:
    group: ProcessGroup
    number: int
    kind: Kind
    expected: Operation  # what most ranks have there
    usual: tuple[int, ...]  # these; where no side is larger, the side of the lowest rank
    found: Operation
    odd: tuple[int, ...]
    pending: bool  # a rank has not come out of it
    even: bool  # no side is larger


def find_mismatches(job: TracedJob) -> list[Mismatch]:
    """The first of each group and of each odd set of ranks: what comes after is its result."""
    found: list[Mismatch] = []
    for group in job.groups:
        seen: set[tuple[int, ...]] = set()
        for number in sorted({n for r in group.members for n in job.collectives(r, group)}):
            for mismatch in _at(job, group, number):
                if mismatch.odd not in seen:
                    seen.add(mismatch.odd)
                    found.append(mismatch)
    return found


def _at(job: TracedJob, group: ProcessGroup, number: int) -> list[Mismatch]:
    issued = {
        rank: op for rank in group.members if (op := job.collectives(rank, group).get(number))
    }
    sides: dict[tuple[object, ...], list[int]] = {}
    for rank, op in issued.items():
        sides.setdefault(_signature(op), []).append(rank)
    if len(sides) < 2:
        return []
    usual, *others = sorted(sides.values(), key=lambda ranks: (-len(ranks), ranks))
    expected = issued[usual[0]]
    mismatches = []
    for odd in others:
        found = issued[odd[0]]
        kind = _kind(expected, found)
        if _is_swapped(job, group, number, usual[0], odd[0]):
            kind = "order"
        mismatches.append(
            Mismatch(
                group,
                number,
                kind,
                expected,
                tuple(sorted(usual)),
                found,
                tuple(sorted(odd)),
                pending=any(not issued[rank].finished for rank in (*usual, *odd)),
                even=len(odd) == len(usual),
            )
        )
    return mismatches


def _signature(op: Operation) -> tuple[object, ...]:
    return op.name, _dtypes(op), _size(op)


def _dtypes(op: Operation) -> tuple[str, ...] | None:
    """Those of a rank that has no tensor there (scatter, barrier) are like any other's."""
    return op.dtypes if op.name in _ALIKE else None


def _size(op: Operation) -> tuple[int, ...]:
    """In elements: [4, 2] and [8] are the same to a collective."""
    match _ALIKE.get(op.name):
        case "both":
            return _elements(op.input_sizes), _elements(op.output_sizes)
        case "input":
            return (_elements(op.input_sizes),)
        case "output":
            return (_elements(op.output_sizes),)
    return ()


def _elements(sizes: Sizes) -> int:
    return sum(prod(size) for size in sizes)


def _kind(expected: Operation, found: Operation) -> Kind:
    if expected.name != found.name:
        return "operation"
    return "dtype" if _dtypes(expected) != _dtypes(found) else "size"


def _is_swapped(job: TracedJob, group: ProcessGroup, number: int, usual: int, odd: int) -> bool:
    """Whether each of two ranks has come, next or before, to what the other has here."""
    one, other = job.collectives(usual, group), job.collectives(odd, group)
    return any(
        number + step in one
        and number + step in other
        and _signature(one[number]) == _signature(other[number + step])
        and _signature(other[number]) == _signature(one[number + step])
        for step in (-1, 1)
    )
