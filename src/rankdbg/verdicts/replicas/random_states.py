"""States of random generators -> what a program may not have meant.

Equal states along the dimensions for data: all replicas draw the same dropout masks. Different states
along those for a tensor's parts: dropout in what each rank has whole (residuals, norms) differs there. A
program may want both, so these are notes and no differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.differences import is_for_data, is_for_parts, ranks_alike
from rankdbg.wire.replica_answers import ReplicaTensor


@dataclass(frozen=True)
class RandomNote:
    """`equal`: the states are, along `dimension` (empty: no mesh is known). `ranks`: one set of ranks
    in which it is so; `sets`: how many there are."""

    generator: str
    dimension: str
    equal: bool
    ranks: tuple[Rank, ...]
    sets: int = 1


def find_random_notes(
    ranks: Sequence[Rank], tensors: Mapping[ProcessKey, Sequence[ReplicaTensor]]
) -> list[RandomNote]:
    dimensions = sorted({name for rank in ranks for name in rank.coordinates})
    found = []
    for generator in _generators(tensors):
        holders = [
            (rank, each)
            for rank in ranks
            for each in tensors.get(rank.process, ())
            if (each.kind, each.name) == ("random", generator)
        ]
        meant = [name for name in dimensions if name not in ("hosts", "gpus")]
        for dimension in meant or [""]:
            sets = [*map(_states, ranks_alike(holders, {dimension}, dimensions))]
            if is_for_data(dimension) or not dimension:
                odd = [same for groups in sets for same in groups if len(same) > 1]
            elif is_for_parts(dimension):
                odd = [[r for same in groups for r in same] for groups in sets if len(groups) > 1]
            else:
                continue
            if odd:
                equal = not is_for_parts(dimension)
                found.append(RandomNote(generator, dimension, equal, tuple(odd[0]), len(odd)))
    return found


def _generators(tensors: Mapping[ProcessKey, Sequence[ReplicaTensor]]) -> list[str]:
    return [*Counter(e.name for told in tensors.values() for e in told if e.kind == "random")]


def _states(members: Sequence[tuple[Rank, ReplicaTensor]]) -> list[list[Rank]]:
    """Ranks with equal states."""
    groups: dict[str, list[Rank]] = {}
    for rank, each in members:
        groups.setdefault(each.hash, []).append(rank)
    return [*groups.values()]
