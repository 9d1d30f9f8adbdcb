"""Work that the program's own thread does at the start of a step: parameters do not change then.

The agent's thread leaves it here and waits; rankdbg.progress() does it.
"""

from __future__ import annotations

from rankdbg.agent import card, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class StepPassed(Exception):
    """The step has been reached before."""


class Interrupted(Exception):
    """The program was interrupted, or exits, while it did the work."""


class _Work:
    """`parts`: the first is done at the step, and each other one at the start of the next."""

    def __init__(self, step: int, parts: tuple[Callable[[], Any], ...]) -> None:
        self.step, self.parts = step, [*parts]
        self.begun = False
        self.done = threads.new_lock()
        self.done.acquire()
        self.result: Any = None
        self.error: Exception | None = None

    def __call__(self, step: int) -> None:
        if step < self.step and not self.begun:
            return
        try:
            if step > self.step and not self.begun:
                raise StepPassed(f"the program went from a step before {self.step} to step {step}")
            self.begun = True
            self.result = self.parts.pop(0)()
        except Exception as error:
            self._end(error)
        except BaseException:  # ^C, which is meant for the program
            self._end(Interrupted(f"step {step} was interrupted"))
            raise
        else:
            if not self.parts:
                self._end(None)

    def _end(self, error: Exception | None) -> None:
        self.error = error
        remove(self)
        self.done.release()


def at(step: int, work: Callable[[], Any], seconds: float) -> Any:
    """What work() returns at that step. Raises StepPassed, or TimeoutError if no step comes."""
    return _wait_for(_Work(step, (work,)), seconds)


def from_to_next(
    step: int, begin: Callable[[], Any], end: Callable[[], Any], seconds: float
) -> Any:
    """begin() at that step, and what end() returns at the start of the next one. Raises as at(); then
    end() has not been called."""
    return _wait_for(_Work(step, (begin, end)), seconds)


def _wait_for(waiting: _Work, seconds: float) -> Any:
    step = waiting.step
    if card.step is not None and card.step >= step:
        raise StepPassed(f"step {card.step} has begun")
    card.step_work.append(waiting)
    if not waiting.done.acquire(timeout=seconds):
        remove(waiting)
        ended = "ended" if waiting.begun else "begun"
        raise TimeoutError(f"step {step} has not {ended}")
    if waiting.error is not None:
        raise waiting.error
    return waiting.result


def remove(work: Callable[[int], None]) -> None:
    if work in card.step_work:
        card.step_work.remove(work)
