"""Calls of whole models -> ranks that have parts of the same layers and get other data.

Ranks along tp compute one batch together: each of them must be given the same one, unless the program
divides it among them. So this explains differences, and is none itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.differences import is_for_parts, ranks_alike
from rankdbg.verdicts.replicas.odd_modules import odd_ranks
from rankdbg.wire.replica_answers import ModuleCall


@dataclass(frozen=True)
class OddData:
    """`ranks`: those that should get the same; `odd`: those with other inputs than most, or all."""

    module: str
    type: str
    dimension: str
    ranks: tuple[Rank, ...]
    odd: tuple[Rank, ...]


def find_odd_data(
    ranks: Sequence[Rank], calls: Mapping[ProcessKey, Sequence[ModuleCall]]
) -> tuple[OddData, ...]:
    dimensions = sorted({name for rank in ranks for name in rank.coordinates})
    along = [name for name in dimensions if is_for_parts(name)]
    of_ranks = {rank.process: _outermost(calls.get(rank.process, ())) for rank in ranks}
    names = {name: None for of_rank in of_ranks.values() for name in of_rank}
    found = []
    for name in names if along else ():
        holders = [
            (rank, of_ranks[rank.process][name]) for rank in ranks if name in of_ranks[rank.process]
        ]
        for members in ranks_alike(holders, along, dimensions):
            if odd := odd_ranks([(rank, call.inputs) for rank, call in members]):
                alike = tuple(rank for rank, _ in members)
                kind = members[0][1].type
                found.append(OddData(name, kind, ", ".join(along), alike, odd))
    return tuple(found)


def _outermost(calls: Sequence[ModuleCall]) -> dict[str, ModuleCall]:
    """The first forward call of each module that is inside of no other."""
    first: dict[str, ModuleCall] = {}
    for call in calls:
        if call.phase == "forward" and call.inputs and not call.part:
            first.setdefault(call.name, call)
    return {
        name: call
        for name, call in first.items()
        if not any(other != name and _is_inside(name, other) for other in first)
    }


def _is_inside(name: str, other: str) -> bool:
    return not other or name.startswith(f"{other}.")
