"""Hashes of all ranks' tensors -> the tensors that should be equal and are not, and who is odd.

Which ranks must have a tensor alike:

    a DTensor               along the dimensions of its mesh that replicate it
    any other tensor        along the dimensions that are for data (dp, ddp, replicate); along those of a
                            tensor's parts (tp, sp) too, if each rank has it whole (whole_tensors.py)
    no dimensions known     in all ranks, as DDP keeps it
    never                   buffers that DDP overwrites before each forward pass, and random generators
                            (random_states.py)

Where most of the ranks that must be alike are not, the tensor is split by a program in a way that is
not known here, and no rank is named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.whole_tensors import WholeTensors
from rankdbg.wire.replica_answers import ReplicaTensor

_FOR_DATA = re.compile(r"^(dp|ddp|data|replica|replicate|dp_replicate|hsdp)\w*$")
_FOR_PARTS = re.compile(r"^(tp|sp|tensor|sequence)\w*$")
_SPLITS_DATA = re.compile(r"shard")
_PLACES = ("hosts", "gpus")  # that the ranks run on


@dataclass(frozen=True)
class Difference:
    """`groups`: the ranks with equal bits, the largest first. `odd`: those that differ from most; all
    of them if there is no majority."""

    kind: str
    name: str
    groups: tuple[tuple[Rank, ...], ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.name

    @property
    def place(self) -> tuple[ProcessKey, str, str]:
        """Several sets of ranks may differ in the same tensor."""
        return self.groups[0][0].process, self.kind, self.name

    @property
    def ranks(self) -> tuple[Rank, ...]:
        return tuple(rank for group in self.groups for rank in group)

    @property
    def odd(self) -> tuple[Rank, ...]:
        if not self.has_majority:
            return self.ranks
        return tuple(rank for group in self.groups[1:] for rank in group)

    @property
    def along(self) -> tuple[str, ...]:
        """The dimensions of the mesh that divide the ranks as the groups do: what differs along tp."""
        return tuple(
            name
            for name in sorted({name for rank in self.ranks for name in rank.coordinates})
            if name not in _PLACES and self._is_divided_by(name)
        )

    def _is_divided_by(self, dimension: str) -> bool:
        """Whether each group has one coordinate in it, and no two the same."""
        found = [{r.coordinates.get(dimension) for r in group} for group in self.groups]
        return all(len(each) == 1 for each in found) and len(set().union(*found)) == len(found)

    @property
    def has_majority(self) -> bool:
        return len(self.groups[0]) * 2 > sum(map(len, self.groups))


Tensors = Mapping[ProcessKey, Sequence[ReplicaTensor]]
T = TypeVar("T")


def find_differences(
    ranks: Sequence[Rank], tensors: Tensors, equal_across: Collection[str] = ()
) -> list[Difference]:
    """In the order of the model. `equal_across`: the dimensions along which all must be equal, if
    the user gives them."""
    found = []
    names = {
        (each.kind, each.name): None
        for told in tensors.values()
        for each in told
        if each.kind != "random" and not each.resynced
    }
    by_rank = {p: {(each.kind, each.name): each for each in told} for p, told in tensors.items()}
    dimensions = sorted({name for rank in ranks for name in rank.coordinates})
    whole = _whole_tensors(tensors)
    for key in names:
        holders = [
            (rank, by_rank[rank.process][key])
            for rank in ranks
            if key in by_rank.get(rank.process, ())
        ]
        first, tensor = holders[0]
        along = equal_across or _replicated(tensor, dimensions, whole(first.process))
        for members in ranks_alike(holders, along, dimensions):
            if difference := _difference(key, members):
                found.append(difference)
    return found


def count_undecided(ranks: Sequence[Rank], tensors: Tensors) -> int:
    """Biases that are not compared along the dimensions of a tensor's parts, because it is not known
    whether each rank has them whole."""
    if not any(is_for_parts(name) for rank in ranks for name in rank.coordinates):
        return 0
    holders = {
        each.name: process
        for process, told in tensors.items()
        for each in told
        if each.kind == "parameter" and not each.placement
    }
    whole = _whole_tensors(tensors)
    return sum(whole(process).may_have(name) for name, process in holders.items())


def _whole_tensors(tensors: Tensors) -> Callable[[ProcessKey], WholeTensors]:
    """Of a rank: most tensors are decided by what one of them has."""
    return cache(lambda process: WholeTensors(tensors[process]))


def _replicated(tensor: ReplicaTensor, dimensions: Sequence[str], whole: WholeTensors) -> set[str]:
    """The dimensions along which it must be equal."""
    if tensor.placement:
        along = {name for name, how in tensor.placement if how == "replicate"}
        split = {name for name, _ in tensor.placement}
        return along | {name for name in dimensions if name not in split and is_for_data(name)}
    found = {name for name in dimensions if is_for_data(name)}
    if whole.has(tensor.name):
        found |= {name for name in dimensions if is_for_parts(name)}
    return found


def is_for_data(name: str) -> bool:
    return bool(_FOR_DATA.match(name)) and not _SPLITS_DATA.search(name)


def is_for_parts(name: str) -> bool:
    return bool(_FOR_PARTS.match(name))


def ranks_alike(
    holders: Iterable[tuple[Rank, T]], along: Collection[str], dimensions: Sequence[str]
) -> list[list[tuple[Rank, T]]]:
    """Ranks that must have it alike: all others of their coordinates are equal. Without dimensions
    for anything (hosts and GPUs are none), all ranks."""
    meant = [name for name in dimensions if name not in _PLACES]
    groups: dict[tuple[object, ...], list[tuple[Rank, T]]] = {}
    for rank, tensor in holders:
        key = tuple(rank.coordinates.get(name) for name in meant if name not in along)
        groups.setdefault((rank.role, *key), []).append((rank, tensor))
    return [members for members in groups.values() if len(members) > 1]


def _difference(
    key: tuple[str, str], members: Sequence[tuple[Rank, ReplicaTensor]]
) -> Difference | None:
    kind, name = key
    if len({tensor.shape for _, tensor in members}) > 1:
        return None  # each has a part of its own
    counts = Counter(tensor.hash for _, tensor in members)
    if len(counts) == 1:
        return None
    groups = [
        tuple(rank for rank, tensor in members if tensor.hash == each)
        for each, _ in counts.most_common()
    ]
    first = members[0][1]
    return Difference(kind, name, tuple(groups), first.shape, first.dtype)
