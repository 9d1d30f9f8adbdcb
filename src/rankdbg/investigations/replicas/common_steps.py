"""One question to ranks at the start of the same step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from rankdbg.session import Session
from rankdbg.types import Answer, Rank, Reply, Silence

# Steps between the question and the step at which ranks answer it; if that was too few, twice as many
# as ranks have done until the question came.
MARGIN, TRIES = 2, 6


class AtStep(Protocol):
    """What all these answers say: their step, or why there is none."""

    @property
    def step(self) -> int | None: ...
    @property
    def passed(self) -> bool: ...
    @property
    def why(self) -> str: ...


T = TypeVar("T", bound=AtStep)


@dataclass(frozen=True)
class AtOneStep(Generic[T]):
    """`step`: None if ranks were asked at different moments."""

    answers: list[tuple[Rank, T]]
    without: list[Silence]
    step: int | None


class CommonSteps:
    """Remembers how far ahead the step must be, and whether steps come at all."""

    def __init__(self, session: Session, timeout: float) -> None:
        self._session, self.timeout = session, timeout
        self._margin = MARGIN
        self._come = True

    def next_step(self, ranks: Sequence[Rank]) -> int | None:
        """One that no rank has reached; None if a rank reports none, or is stopped."""
        wanted = {rank.process for rank in ranks}
        job = ranks[0].job if ranks else None
        roster = self._session.roster(where=False, job=job).processes if ranks else []
        present = [rank for rank in roster if rank.process in wanted]
        steps = [rank.step for rank in present if rank.step is not None]
        if not steps or len(steps) < len(present) or any(r.state == "stopped" for r in present):
            return None
        return max(steps) + self._margin

    def ask(
        self, ranks: Sequence[Rank], put: Callable[[int | None], list[Reply[T]]]
    ) -> AtOneStep[T]:
        """At once if ranks report no steps, or make no progress."""
        found = self.ask_at_step(ranks, put)
        if found is not None:
            return found
        found = _sorted(put(None), None)
        steps = {value.step for _, value in found.answers}
        return AtOneStep(found.answers, found.without, steps.pop() if len(steps) == 1 else None)

    def ask_at_step(
        self, ranks: Sequence[Rank], put: Callable[[int], list[Reply[T]]]
    ) -> AtOneStep[T] | None:
        """None if no step comes."""
        for _ in range(TRIES if self._come else 0):
            step = self.next_step(ranks)
            if step is None:
                return None
            found = _sorted(put(step), step)
            if all(not value.why for _, value in found.answers):
                return found
            if not any(value.passed for _, value in found.answers):
                self._come = False  # they wait, or are stopped
                break
            arrived = max(value.step or 0 for _, value in found.answers)
            self._margin = 2 * (arrived - step + self._margin)
        return None


def _sorted(replies: list[Reply[T]], step: int | None) -> AtOneStep[T]:
    answers = [(each.rank, each.value) for each in replies if isinstance(each, Answer)]
    return AtOneStep(answers, [each for each in replies if isinstance(each, Silence)], step)
