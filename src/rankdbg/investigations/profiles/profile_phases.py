"""The phases of a step (forward, backward, data, ...) in a profile: a line for ranks that are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rankdbg.profiles.documents import Profile
from rankdbg.profiles.step_phases import (
    PhaseOf,
    Shares,
    SimilarRanks,
    group_alike,
    mean_of,
    shares_of,
)
from rankdbg.verdicts.rules.profile_rules import OTHER


class PhaseTable:
    def __init__(
        self,
        profiles: Sequence[Profile],
        phase_of: PhaseOf,
        sides: Sequence[Sequence[int]] | None,
        whose: Callable[[Sequence[int]], str],
    ) -> None:
        """`sides`: the groups that are compared; else these are made of ranks that are alike."""
        self.shares = [shares_of(profile, phase_of) for profile in profiles]
        self.whose = whose
        self.groups = (
            [SimilarRanks(tuple(side), mean_of([self.shares[i] for i in side])) for side in sides]
            if sides
            else group_alike(self.shares)
        )

    def __bool__(self) -> bool:
        """Whether any frame tells of a phase."""
        return any(phase != OTHER for shares in self.shares for phase in shares)

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {
                "ranks": self.whose(group.indices),
                "count": len(group.indices),
                "shares": rounded(group.shares),
            }
            for group in self.groups
        ]


def rounded(shares: Shares) -> Shares:
    return {phase: round(share, 4) for phase, share in sorted(shares.items())}
