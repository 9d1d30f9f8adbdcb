"""Parameters, gradients and optimizer state of a tensor that differs -> what kind of mistake it is.

The order is that of proof: what an optimizer has is a fact about the program, while gradients may
differ because the parameters do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.differences import Difference
from rankdbg.wire.replica_answers import ReplicaTensor

Kind = Literal[
    "rounding",  # of kernels that add in another order: not a fault
    "left out",  # no optimizer has it in these ranks
    "no gradient",  # others have one
    "gradient",  # not reduced, or reduced wrongly
    "settings",  # of the optimizer
    "optimizer",  # its state
    "outside",  # changed by something else
    "buffer",  # not broadcast
    "unknown",
]


@dataclass(frozen=True)
class Cause:
    """`ranks`: those in which it is so; of gradients and states those that differ from most, or all.
    `values`: settings that differ."""

    kind: Kind
    name: str
    ranks: tuple[Rank, ...]
    values: tuple[str, ...] = ()


# Of tensors that are no parameters.
_OF_KINDS: dict[str, Kind] = {
    "buffer": "buffer",
    "gradient": "gradient",
    "optimizer": "optimizer",
}

Tensors = Mapping[ProcessKey, Sequence[ReplicaTensor]]


def find_cause(difference: Difference, tensors: Tensors, *, is_rounding: bool = False) -> Cause:
    """`tensors`: of all kinds, at one step."""
    look = _Look(difference, tensors)
    if difference.kind == "parameter" and (left_out := look.left_out()):
        return look.cause("left out", left_out)
    if is_rounding:
        return look.cause("rounding", difference.odd)
    if difference.kind != "parameter":
        return look.cause(_OF_KINDS.get(difference.kind, "unknown"), difference.odd)
    gradients = look.gradients()
    if missing := _missing(gradients):
        return look.cause("no gradient", missing)
    if odd := _odd(gradients):
        return look.cause("gradient", odd)
    settings = [(rank, each.settings) for rank, each in look.parameters() if each.settings]
    if odd := _odd(settings):
        texts = tuple(sorted({text for _, text in settings}))
        return Cause("settings", difference.name, odd, texts)
    states = look.states()
    for state in states:
        # An optimizer that has the parameter and no state of it divides the states among ranks.
        if (missing := _missing(state)) and not look.is_optimized:
            return look.cause("left out", missing)
    for state in states:
        if odd := _odd(state):
            return look.cause("optimizer", odd)
    return look.cause(
        "outside" if any(text for _, text in gradients) else "unknown", difference.odd
    )


# What each rank has of a tensor; empty: nothing.
_Hashes = list[tuple[Rank, str]]


class _Look:
    def __init__(self, difference: Difference, tensors: Tensors) -> None:
        self._difference = difference
        self._found = [
            (rank, {(each.kind, each.name): each for each in tensors.get(rank.process, ())})
            for rank in difference.ranks
        ]

    def cause(self, kind: Kind, ranks: Sequence[Rank]) -> Cause:
        return Cause(kind, self._difference.name, tuple(ranks))

    def parameters(self) -> list[tuple[Rank, ReplicaTensor]]:
        key = "parameter", self._difference.name
        return [(rank, found[key]) for rank, found in self._found if key in found]

    def left_out(self) -> list[Rank]:
        """Ranks whose optimizers do not have it, while those of at least as many others do: if only
        few have it, the parameters are divided among the ranks' optimizers."""
        parameters = self.parameters()
        lacking = [rank for rank, each in parameters if each.optimized is False]
        having = [rank for rank, each in parameters if each.optimized]
        return lacking if len(lacking) <= len(having) else []

    @property
    def is_optimized(self) -> bool:
        return any(each.optimized for _, each in self.parameters())

    def hashes(self, kind: str, name: str) -> _Hashes:
        return [
            (rank, found[kind, name].hash if (kind, name) in found else "")
            for rank, found in self._found
        ]

    def gradients(self) -> _Hashes:
        """Those of a DTensor may still be divided or partial where the parameter is not: then each rank
        rightly has its own, until the optimizer reduces it."""
        placements = {each.name: each.placement for _, each in self.parameters()}
        name = self._difference.name
        found = [told.get(("gradient", name)) for _, told in self._found]
        if any(each is not None and each.placement != placements.get(name, ()) for each in found):
            return [(rank, "partial") for rank, _ in self._found]
        return self.hashes("gradient", name)

    def states(self) -> list[_Hashes]:
        """What optimizers keep of it, by name: `NAME exp_avg`."""
        begin = f"{self._difference.name} "
        names = {
            name: None
            for _, found in self._found
            for kind, name in found
            if kind == "optimizer" and name.startswith(begin)
        }
        return [self.hashes("optimizer", name) for name in names]


def _missing(hashes: _Hashes) -> list[Rank]:
    """Ranks that lack what others have."""
    missing = [rank for rank, each in hashes if not each]
    return missing if len(missing) < len(hashes) else []


def _odd(hashes: _Hashes) -> tuple[Rank, ...]:
    """Those that differ from most; all if there is no majority; none if all are equal."""
    groups: dict[str, list[Rank]] = {}
    for rank, each in hashes:
        if each:
            groups.setdefault(each, []).append(rank)
    if len(groups) < 2:
        return ()
    ordered = sorted(groups.values(), key=len, reverse=True)
    few = ordered[1:] if len(ordered[0]) * 2 > sum(map(len, ordered)) else ordered
    return tuple(rank for group in few for rank in group)
