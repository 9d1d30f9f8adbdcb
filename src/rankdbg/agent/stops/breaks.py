"""The breaks of this process: at which lines, and what happens there.

    breaks           the table of breaks
    sources          files and lines with code
    break_gates      from when on a break counts
    break_events     Python 3.12 and later: notices lines with sys.monitoring
    break_tracing    before that: notices lines with a trace function
    break_requests   sets, clears and lists breaks for clients: `rankdbg break FILE:LINE`

Imported when the first thread stops or the first break is set, not before.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any

from rankdbg.agent import active, card, describe, messages, stacks
from rankdbg.agent.stops import break_gates, sources
from rankdbg.process.user_code import is_agent

KEPT_LINES = 100
NAME_SECONDS = 1.0  # how long a rank's number is cached for lines of log

_breaks: dict[tuple[str, int], Break] = {}
# For each file name of code that was seen, the breaks in it by line.
_by_file: dict[str, dict[int, Break]] = {}
# For each code object in such a file, whether there is a break in it. (By its id: the hash of a
# code object is computed from all of its content, each time.)
_by_code: dict[int, tuple[CodeType, bool]] = {}


class Break(break_gates.Gated):
    """FILE:LINE, and what happens there: a stop, perhaps with a condition, or a line of log."""

    def __init__(self, file: str, line: int, condition: str, log: str) -> None:
        self.file, self.line, self.condition, self.log = file, line, condition, log
        self.files: list[str] = []  # the names of this file in this process
        self.hits = 0
        self.error = ""
        self.logged: deque[str] = deque(maxlen=KEPT_LINES)
        self._condition = compile(condition.strip(), "<condition>", "eval") if condition else None
        self._log = compile(_f_string(log), "<log>", "eval") if log else None

    @property
    def name(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"

    def reason_to_stop(self, frame: FrameType) -> str | None:
        """Called when a thread is about to execute the line. None: it does not stop."""
        if not self.passes_gate():
            return None
        failed = bool(self.error)
        if self._condition is not None and not self._evaluate(self._condition, frame):
            # A condition that raises stops the thread once; each time would block a loop.
            first = self.error and not failed
            return f"{self.name}, its condition failed: {self.error}" if first else None
        self.hits += 1
        if self._log is None:
            return self.name
        text = self._evaluate(self._log, frame)
        if text is not None or not failed:
            self._log_line(str(text) if text is not None else f"cannot be logged: {self.error}")
        return None

    def _evaluate(self, expression: CodeType, frame: FrameType) -> Any:
        """The value in the frame; None if it raises."""
        try:
            return eval(expression, {**frame.f_globals, **stacks.variables(frame, None)})
        except Exception as error:
            self.error = describe.exception_text(error)
            return None

    def _log_line(self, text: str) -> None:
        self.logged.append(text)
        messages.write(f"{_rank_name()}{self.name} {text}")

    def report(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "condition": self.condition,
            "log": self.log,
            "hits": self.hits,
            "error": self.error,
            "logged": list(self.logged),
        }


_cached_name = ("", 0.0)  # the rank's name, and until when it is used


def _rank_name() -> str:
    """The first words of a line of log. Cached: a loop may log thousands of lines a second, and
    making a card takes longer than the rest of the line."""
    global _cached_name
    name, until = _cached_name
    now = time.monotonic()
    if now > until:
        number = card.make()["labels"].get("rank")
        name = f"rank {number} " if number is not None else ""
        _cached_name = name, now + NAME_SECONDS
    return name


def _after_fork() -> None:
    """The child keeps the breaks. Its rank number is another one."""
    global _cached_name
    _cached_name = ("", 0.0)


active.after_fork.append(_after_fork)


def _f_string(text: str) -> str:
    quotes = "'''" if '"""' in text or text.endswith('"') else '"""'
    return f"f{quotes}{text}{quotes}"


# --- the table ------------------------------------------------------------------------


def of_file(file: str) -> dict[int, Break]:
    """The breaks in a file, by line."""
    # Keep the present dictionary: if the breaks change meanwhile there is a new one, and this
    # result must not be stored there.
    by_file = _by_file
    found = by_file.get(file)
    if found is None:
        wanted = [] if is_agent(file) else list(_breaks.values())
        found = {b.line: b for b in wanted if sources.matches(b.file, file)}
        by_file[file] = found
    return found


def at(frame: FrameType) -> Break | None:
    """The break at the line that a frame is about to execute."""
    return of_file(frame.f_code.co_filename).get(frame.f_lineno)


def are_in(code: CodeType) -> bool:
    by_code = _by_code
    found = of_file(code.co_filename)
    if not found:
        return False
    known = by_code.get(id(code))
    if known is None:
        # Keep the code object too, so that no other can get its id.
        known = by_code[id(code)] = code, not found.keys().isdisjoint(sources.lines_of(code))
    return known[1]


def everyone() -> list[Break]:
    return list(_breaks.values())


break_gates.holders.append(everyone)


def put(entry: Break) -> None:
    _breaks[entry.file, entry.line] = entry
    _clear_caches()


def remove(keys: Iterable[tuple[str, int]]) -> None:
    for key in keys:
        del _breaks[key]
    _clear_caches()


def _clear_caches() -> None:
    global _by_file, _by_code
    _by_file = {}
    _by_code = {}  # after the other: are_in() reads this one first
