"""A break takes effect in all ranks at the same count, also when a rank hears of it late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rankdbg.investigations.stops import breaks
from rankdbg.types import Answer, ProcessKey, Rank
from rankdbg.wire.answers import BreakPlace

RANKS = [Rank(ProcessKey("node", 100 + n, 1), "job", number=n) for n in range(3)]


class Ranks:
    """Stands in for a session: ranks in lockstep, of which the last is told a count late."""

    def __init__(self, late: list[int], speed: int = 5) -> None:
        self.late = late  # for each count that is sent: how far the last rank is beyond it
        self.speed = speed  # steps from one look to the next
        self.step = 10
        self.counts: list[int] = []
        self.confirmed: list[int] = []

    def _answers(self, ranks: Sequence[Rank], last: int) -> list[Any]:
        steps = [self.step] * (len(ranks) - 1) + [last]
        pairs = zip(ranks, steps, strict=True)
        return [Answer(rank, BreakPlace("set", (), counts={"step": n})) for rank, n in pairs]

    def set(self) -> list[Any]:
        return self._answers(RANKS, self.step)

    def open_breaks(
        self, ranks: Sequence[Rank], kind: str, count: int, measuring: bool = False
    ) -> list[Any]:
        if measuring:
            self.step += self.speed
            return self._answers(ranks, self.step)
        self.counts.append(count)
        behind = self.late.pop(0)
        self.step = max(self.step, count + behind)
        return self._answers(ranks, count + behind)

    def confirm_breaks(self, ranks: Sequence[Rank]) -> list[Any]:
        self.confirmed.append(self.counts[-1])
        return []


@pytest.mark.parametrize("late", [[-1], [0, -1], [3, 0, -2], [0, 0, 0, 0, 0]])
def test_a_later_count_is_sent_until_every_rank_heard_of_it_in_time(late: list[int]) -> None:
    session: Any = Ranks(list(late))
    breaks._open_together(session, session.set())
    assert len(session.counts) == len(late)
    assert session.counts == sorted(set(session.counts))
    assert session.confirmed == session.counts[-1:]


def test_breakpoints_of_an_editor_open_at_a_later_step() -> None:
    session: Any = Ranks([-1])
    breaks.open_gates(session, RANKS, at_once=False)
    (count,) = session.counts
    assert count > 25  # the step at the last of three looks
    assert session.confirmed == [count]


@pytest.mark.parametrize(
    ("ranks", "speed", "at_once"), [(RANKS, 0, False), (RANKS[:1], 5, False), (RANKS, 5, True)]
)
def test_breakpoints_of_an_editor_open_at_once(
    ranks: list[Rank], speed: int, at_once: bool
) -> None:
    """Where no rank makes progress, there is only one, or one is stopped already."""
    session: Any = Ranks([0], speed)
    breaks.open_gates(session, ranks, at_once)
    assert (session.counts, session.confirmed) == ([0], [])
