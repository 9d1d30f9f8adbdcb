"""Lines that say that a step is done: which steps follow a moment, or a place in a file."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBER = re.compile(r"\d{1,18}$")  # a user's own rule may name a step otherwise
STEPS_AFTER = 2  # different ones, before a job counts as running again
SOON = 20.0  # seconds: lines of others are written so much later, though nothing goes on


@dataclass(frozen=True)
class LoggedStep:
    """A line that says that a step is done."""

    path: str
    offset: int
    rank: int | None
    step: str
    time: float | None
    comparable: bool
    text: str = ""
    exact: bool = True  # whether the line has a clock of its own

    @property
    def step_number(self) -> int | None:
        """None: the step is not a number."""
        return int(self.step) if _NUMBER.match(self.step) else None


class StepOrder:
    """Steps by time, or by their places in a file."""

    def __init__(self, steps: Iterable[tuple[float | None, str]]) -> None:
        known = sorted((place, step) for place, step in steps if place is not None)
        self._first = sorted({step: place for place, step in reversed(known)}.values())
        last = {step: place for place, step in known}
        self._last = sorted((place, step) for step, place in last.items())

    def between(self, start: float, end: float) -> str:
        """The last of the new steps in this time; `` if there are too few."""
        first, last = bisect_right(self._first, start + SOON), bisect_right(self._first, end)
        done = bisect_right(self._last, (end, "\uffff"))
        return self._last[done - 1][1] if last - first >= STEPS_AFTER and done else ""

    def after(self, place: float) -> str:
        """The last of the steps after this; `` if there are too few to say that a job went on."""
        new = len(self._first) - bisect_right(self._first, place)
        done = len(self._last) - bisect_right(self._last, (place, "\uffff"))
        return self._last[-1][1] if new >= STEPS_AFTER or done > 2 * STEPS_AFTER else ""


def orders_in_files(steps: Iterable[LoggedStep]) -> dict[str, StepOrder]:
    places: dict[str, list[tuple[float | None, str]]] = {}
    for done in steps:
        places.setdefault(done.path, []).append((done.offset, done.step))
    return {path: StepOrder(order) for path, order in places.items()}


def furthest(steps: Iterable[str]) -> int:
    """0 if none of them is a number."""
    return max((int(step) for step in steps if _NUMBER.match(step)), default=0)
