"""Hashes that ranks have kept -> since which step a tensor differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rankdbg.types import ProcessKey, Rank


@dataclass(frozen=True)
class FirstDifferingStep:
    """`step`: the first one kept at which ranks differ; None: they differ since the last one kept.
    `equal_at`: the last one before, at which they were equal; None: none was kept, so that they
    differ at least since `step`."""

    step: int | None
    equal_at: int | None

    @property
    def at_least(self) -> bool:
        return self.step is not None and self.equal_at is None

    def __str__(self) -> str:
        if self.step is None:
            return f"since a step after {self.equal_at}"
        if self.equal_at is None:
            return f"at least since step {self.step}"
        return f"since step {self.step}; equal at step {self.equal_at}"


# Of one tensor: the hash at each step that a rank has kept.
Histories = Mapping[ProcessKey, Mapping[int, str]]


def find_since(ranks: Iterable[Rank], histories: Histories) -> FirstDifferingStep | None:
    """Of ranks that differ now. None: they have no steps in common."""
    kept = [histories.get(rank.process, {}) for rank in ranks]
    steps = common_steps(kept)
    if not steps:
        return None
    since = None
    for step in reversed(steps):
        if len({each[step] for each in kept}) == 1:
            return FirstDifferingStep(since, step)
        since = step
    return FirstDifferingStep(since, None)


def common_steps(kept: Iterable[Iterable[int]]) -> list[int]:
    sets = [{*steps} for steps in kept]
    return sorted(set.intersection(*sets)) if sets else []
