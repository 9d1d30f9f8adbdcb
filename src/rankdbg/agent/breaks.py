"""Breaks that a client sets in this process while it runs: `rankdbg break FILE:LINE`.

    sources         which files and lines there are
    break_events    Python 3.12 and later: how a line is noticed, by sys.monitoring
    break_tracing   before that: by a trace function

Imported when the first break is set, not before.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from types import CodeType, FrameType
from typing import Any

from rankdbg.agent import card, describe, sources, stacks, threads
from rankdbg.user_code import is_agent

KEPT_LINES = 100
NAME_SECONDS = 1.0  # a rank's number may change: it is looked up so often

_breaks: dict[tuple[str, int], Break] = {}
# For each file name that code has been seen to have, the breaks in it by line.
_by_file: dict[str, dict[int, Break]] = {}
# For each code in such a file, whether there is a break in it. (By its id: a code object's
# hash is made of all that is in it, each time.)
_by_code: dict[int, tuple[CodeType, bool]] = {}
_one_at_a_time = threads.new_lock()


class Break:
    """FILE:LINE, and what happens there: a stop, perhaps on a condition, or a line of log."""

    def __init__(self, file: str, line: int, condition: str, log: str) -> None:
        self.file, self.line, self.condition, self.log = file, line, condition, log
        self.files: list[str] = []  # the names that this file has here
        self.hits = 0
        self.error = ""
        self.logged: deque[str] = deque(maxlen=KEPT_LINES)
        self._condition = compile(condition.strip(), "<condition>", "eval") if condition else None
        self._log = compile(_f_string(log), "<log>", "eval") if log else None

    @property
    def name(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"

    def meet(self, frame: FrameType) -> str | None:
        """A thread is about to execute the line: why it shall stop, or None."""
        failed = bool(self.error)
        if self._condition is not None and not self._evaluate(self._condition, frame):
            # A condition that fails is worth a stop, once: a loop would never get past it.
            first = self.error and not failed
            return f"{self.name}, its condition failed: {self.error}" if first else None
        self.hits += 1
        if self._log is None:
            return self.name
        text = self._evaluate(self._log, frame)
        if text is not None or not failed:
            self._say(str(text) if text is not None else f"cannot be logged: {self.error}")
        return None

    def _evaluate(self, expression: CodeType, frame: FrameType) -> Any:
        """Its value in the frame; None if it fails."""
        try:
            return eval(expression, {**frame.f_globals, **stacks.variables(frame, None)})
        except Exception as error:
            self.error = describe.exception_text(error)
            return None

    def _say(self, text: str) -> None:
        self.logged.append(text)
        try:
            sys.stderr.write(f"rankdbg: {_who()}{self.name} {text}\n")
            sys.stderr.flush()
        except Exception:  # stderr may be closed, or None, or anything the program put there
            pass

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


_name = ("", 0.0)  # who this is, and until when that holds


def _who() -> str:
    """What a line of log begins with. A loop may log thousands a second, and to make a card
    takes longer than all the rest of it."""
    global _name
    who, until = _name
    now = time.monotonic()
    if now > until:
        number = card.make()["labels"].get("rank")
        who = f"rank {number} " if number is not None else ""
        _name = who, now + NAME_SECONDS
    return who


def _f_string(text: str) -> str:
    quotes = "'''" if '"""' in text or text.endswith('"') else '"""'
    return f"f{quotes}{text}{quotes}"


# --- for those who notice lines -------------------------------------------------------


def of_file(file: str) -> dict[int, Break]:
    """The breaks in a file, by line."""
    # The dictionary as it is now: if the breaks change meanwhile there is another, and what
    # is found here must not get into that one.
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
        # With the code itself: while it is here, no other can have its id.
        known = by_code[id(code)] = code, not found.keys().isdisjoint(sources.lines_of(code))
    return known[1]


def everyone() -> list[Break]:
    return list(_breaks.values())


# --- for clients ------------------------------------------------------------------------


def listing() -> dict[str, Any]:
    return {"breaks": [entry.report() for entry in _breaks.values()]}


def add(file: str, line: int, condition: str, log: str) -> dict[str, Any]:
    """Set it, or say why that would be in vain."""
    file = os.path.normpath(file)
    new = Break(file, line, condition, log)
    found = _find(file, line)
    if found["state"] not in ("set", "waits"):
        return found
    new.files = found["files"]
    with _one_at_a_time:
        _breaks[file, line] = new
        missed = _refresh()
    return {**found, "missed": missed}


def _find(file: str, line: int) -> dict[str, Any]:
    """Where that is in the code of this process, or in what it may load later."""
    known, living = sources.loaded(), None
    files = [name for name in known if sources.matches(file, name)]
    if not files:
        living = sources.alive()
        known |= {code.co_filename for code in living if not is_agent(code.co_filename)}
        files = [name for name in known if sources.matches(file, name)]
    later = None if files else sources.find_unloaded(file) or sources.find_text(file)
    if not files and later is None:
        return {"state": "no file", "files": _alike(file, known)}
    lines = {name: _lines(sources.compiled(name)) for name in files or [str(later)]}
    if not any(line in some for some in lines.values()):
        # The text is not here, or no longer that of what was loaded.
        for code in sources.alive() if living is None else living:
            if code.co_filename in lines:
                lines[code.co_filename] |= _lines([code])
    chosen = sorted(name for name, some in lines.items() if line in some)
    if not chosen:
        nearest = {n: min(some, key=lambda at: abs(at - line)) for n, some in lines.items() if some}
        return {"state": "no code", "files": sorted(lines), "nearest": nearest}
    return {"state": "set" if files else "waits", "files": chosen}


def _lines(codes: list[CodeType]) -> set[int]:
    return {line for code in sources.with_nested(codes) for line in sources.lines_of(code)}


def clear(file: str | None, line: int | None) -> dict[str, Any]:
    """Take away one, or all. Which they were."""
    with _one_at_a_time:
        if file is None:
            gone = list(_breaks)
        else:
            wanted = os.path.normpath(file)
            gone = [
                key
                for key in _breaks
                if key[1] == line
                and (sources.matches(wanted, key[0]) or sources.matches(key[0], wanted))
            ]
        for key in gone:
            del _breaks[key]
        missed = _refresh() if gone else []
    return {"cleared": [list(key) for key in gone], "missed": missed}


def _refresh() -> list[str]:
    """The breaks have changed: have their lines noticed, and no others. The names of the
    threads that cannot be reached."""
    global _by_file, _by_code
    _by_file = {}
    _by_code = {}  # after the other: are_in() looks at this one first
    if sys.version_info >= (3, 12):
        from rankdbg.agent import break_events

        return break_events.watch(bool(_breaks))
    from rankdbg.agent import break_tracing

    return break_tracing.watch(bool(_breaks))


def _alike(file: str, known: set[str]) -> list[str]:
    """Files with that name elsewhere, else with a name like it."""
    import difflib

    name = os.path.basename(file)
    names = {os.path.basename(path) for path in known}
    near = [name] if name in names else difflib.get_close_matches(name, sorted(names), 3, 0.8)
    return sorted(path for path in known if os.path.basename(path) in near)


def after_fork() -> None:
    """Breaks hold in a child too; whoever was setting one is not there. Its number is
    another, and so is perhaps what its only thread has been told."""
    global _one_at_a_time, _name
    _one_at_a_time = threads.new_lock()
    _name = ("", 0.0)
    break_tracing: Any = sys.modules.get("rankdbg.agent.break_tracing")
    if break_tracing is not None:
        break_tracing.resume()
