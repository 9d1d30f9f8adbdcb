"""Calls of modules in all ranks -> the first module that returns different outputs for equal inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankdbg.types import ProcessKey, Rank
from rankdbg.wire.replica_answers import ModuleCall


@dataclass(frozen=True)
class OddModule:
    """`ranks`: those with equal inputs and parameters. `odd`: those whose outputs differ from most; all
    if there is no majority. `phase`: forward, or backward; then `type` is that of a node of autograd."""

    module: str
    type: str
    phase: str
    ranks: tuple[Rank, ...]
    odd: tuple[Rank, ...]

    @property
    def has_majority(self) -> bool:
        return len(self.odd) < len(self.ranks)


@dataclass(frozen=True)
class ModulePass:
    """`calls`: how many there were; `compared`: those with equal inputs and parameters in several
    ranks."""

    calls: int
    compared: int
    first: OddModule | None


def find_odd_module(
    ranks: Sequence[Rank], calls: Mapping[ProcessKey, Sequence[ModuleCall]]
) -> ModulePass:
    """Inputs that are equal bit for bit make equal outputs, whatever the ranks are for. Modules that
    draw random numbers are passed over."""
    by_call: dict[tuple[str, str, str, int], list[tuple[Rank, ModuleCall]]] = {}
    for rank in ranks:
        counts: Counter[tuple[str, str, str]] = Counter()
        for call in calls.get(rank.process, ()):
            key = call.phase, call.name, call.type
            by_call.setdefault((*key, counts[key]), []).append((rank, call))
            counts[key] += 1
    compared, first = 0, None
    for members in by_call.values():
        for alike in _with_equal_inputs(members):
            compared += 1
            first = first or _odd_module(alike)
    return ModulePass(len(by_call), compared, first)


def _with_equal_inputs(
    members: Sequence[tuple[Rank, ModuleCall]],
) -> list[list[tuple[Rank, ModuleCall]]]:
    groups: dict[tuple[str, str, str], list[tuple[Rank, ModuleCall]]] = {}
    for rank, call in members:
        if call.inputs and not call.random:
            groups.setdefault((call.inputs, call.parameters, call.part), []).append((rank, call))
    return [group for group in groups.values() if len(group) > 1]


def _odd_module(members: Sequence[tuple[Rank, ModuleCall]]) -> OddModule | None:
    odd = odd_ranks([(rank, call.outputs) for rank, call in members])
    if not odd:
        return None
    call = members[0][1]
    return OddModule(call.name, call.type, call.phase, tuple(rank for rank, _ in members), odd)


def odd_ranks(members: Sequence[tuple[Rank, str]]) -> tuple[Rank, ...]:
    """Those with another value than most; all if there is no majority; none if all are equal."""
    counts = Counter(value for _, value in members)
    if len(counts) < 2:
        return ()
    ((usual, count),) = counts.most_common(1)
    has_majority = count * 2 > len(members)
    return tuple(rank for rank, value in members if not has_majority or value != usual)
