"""The time of ranks in each phase of a step, and groups of similar ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rankdbg.profiles.comparing import FAR
from rankdbg.profiles.documents import Profile
from rankdbg.types import Frame

Shares = dict[str, float]  # by phase; they add up to 1
PhaseOf = Callable[[Iterable[Frame]], str]  # of a stack, innermost frame first


@dataclass(frozen=True)
class SimilarRanks:
    """Ranks with similar phases, by the index of the profile."""

    indices: tuple[int, ...]
    shares: Shares  # the mean of the group


def shares_of(profile: Profile, phase_of: PhaseOf) -> Shares:
    """Of the main thread only."""
    weights: dict[str, float] = defaultdict(float)
    for stack in profile.stacks:
        if stack.main and stack.frames:
            weights[phase_of(reversed(stack.frames))] += stack.weight
    whole = sum(weights.values())
    return {phase: weight / whole for phase, weight in weights.items()} if whole else {}


def group_alike(shares: Sequence[Shares]) -> list[SimilarRanks]:
    """The largest group first."""
    groups: list[list[int]] = []
    for index, own in enumerate(shares):
        near = (group for group in groups if _distance(shares[group[0]], own) < FAR)
        group = next(near, None)
        if group is None:
            groups.append(group := [])
        group.append(index)
    made = [SimilarRanks(tuple(group), mean_of([shares[i] for i in group])) for group in groups]
    return sorted(made, key=lambda alike: -len(alike.indices))


def _distance(one: Shares, other: Shares) -> float:
    return max((abs(one.get(p, 0.0) - other.get(p, 0.0)) for p in {*one, *other}), default=0.0)


def mean_of(shares: Sequence[Shares]) -> Shares:
    phases = {phase for own in shares for phase in own}
    return {phase: sum(own.get(phase, 0.0) for own in shares) / len(shares) for phase in phases}
