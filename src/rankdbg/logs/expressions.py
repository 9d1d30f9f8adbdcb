"""Regular expressions of users: compiled with clear errors, and interrupted if they backtrack for
hours.

Python's engine checks for signals while it searches, in the main thread of a process. So a CPU
timer interrupts a search that takes too long. Outside of the main thread (a node answers each
question in a thread), such expressions run in a separate process (node/logs/log_worker.py).
"""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from rankdbg.errors import BadInput, shortened

TICK = 0.05  # seconds of processor time
# Of one search; and of all those of an expression that took longer than a tick.
LONGEST_SEARCH, LONGEST_IN_ALL = 1.0, 10.0
HINT = "nested repeats such as (a+)+ or (.*)* try every way to split a line: write a+ or .*"


class BadExpression(ValueError):
    """Why a text is not a regular expression, with its place."""


class SlowExpression(BadInput):
    """An expression that takes too long on one line."""

    def __init__(self, name: str, text: str) -> None:
        what = f"{name}: the regular expression {shortened(text)!r} takes too long on one line, "
        super().__init__(f"{what}or on all of them", hint=HINT)


class Expression:
    """An expression of a user, with the name of its option or rule."""

    def __init__(
        self, text: str | bytes, name: str, flags: int = 0, in_all: float = LONGEST_IN_ALL
    ) -> None:
        self._text, self._name = str(text), name
        self._left = in_all
        self._compiled: re.Pattern[Any] = self._interruptible(compiled, text, flags)

    def search(self, text: str | bytes) -> re.Match[Any] | None:
        """Raises SlowExpression."""
        found: re.Match[Any] | None = self._interruptible(self._compiled.search, text)
        return found

    def _interruptible(self, function: Any, *words: Any) -> Any:
        if not (can_be_interrupted() and _has_timer()):
            return function(*words)
        ticks = 0

        def tick(*_: object) -> None:
            nonlocal ticks
            ticks += 1
            self._left -= TICK
            if ticks * TICK > LONGEST_SEARCH or self._left < 0:
                raise SlowExpression(self._name, self._text)

        _on_tick[0] = tick
        signal.setitimer(signal.ITIMER_VIRTUAL, TICK, TICK)
        try:
            return function(*words)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            _on_tick[0] = _ignore


def compiled(text: str | bytes, flags: int = 0) -> re.Pattern[Any]:
    """Raises BadExpression."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a later Python may read differently
            return re.compile(text, flags)
    except re.error as error:
        place = f" at character {error.pos + 1}" if error.pos is not None else ""
        raise BadExpression(f"{error.msg}{place}") from None
    except (OverflowError, RecursionError, ValueError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadExpression(why) from None


@lru_cache(maxsize=4096)
def expression(text: str, name: str, flags: int = 0) -> Expression:
    """Compiled once."""
    return Expression(text, name, flags)


def can_be_interrupted() -> bool:
    """Whether a search in this thread can be: signals are for the main thread."""
    return threading.current_thread() is threading.main_thread()


@cache
def _has_timer() -> bool:
    """Whether the timer is unused by the program."""
    if signal.getsignal(signal.SIGVTALRM) is not signal.SIG_DFL:
        return False
    signal.signal(signal.SIGVTALRM, _tick)
    return True


def _tick(*_: object) -> None:
    _on_tick[0]()


def _ignore() -> None:
    """A timer tick after the end of a search."""


_on_tick: list[Callable[[], None]] = [_ignore]
