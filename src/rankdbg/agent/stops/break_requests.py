"""Breaks that a client sets, clears or lists while the program runs: `rankdbg break FILE:LINE`.

Imported with the first such request, not before.
"""

from __future__ import annotations

import os
import sys
from types import CodeType
from typing import Any

from rankdbg.agent import active, threads
from rankdbg.agent.stops import break_gates, breaks, sources, stopped_threads
from rankdbg.process.user_code import is_agent

if sys.version_info >= (3, 12):
    from rankdbg.agent.stops.break_events import watch
else:
    from rankdbg.agent.stops.break_tracing import watch

MAIN_SECONDS = 0.5  # the main thread responds in milliseconds, unless it waits in C

_one_at_a_time = threads.new_lock()


def listing() -> dict[str, Any]:
    return {"breaks": [entry.report() for entry in breaks.everyone()]}


def add(
    file: str,
    line: int,
    condition: str,
    log: str,
    together: bool = False,
    wait: float = MAIN_SECONDS,
) -> dict[str, Any]:
    """Set a break, or return why it would never be hit. `together`: it does not count before
    break_gates.open_from() is called, and the answer contains the counts of this process."""
    file = os.path.normpath(file)
    new = breaks.Break(file, line, condition, log)
    found = _find(file, line)
    if found["state"] not in ("set", "waits"):
        return found
    new.files = found["files"]
    # In a rank that is stopped the break counts at once, from the very next line on.
    if together and not log and not stopped_threads.everyone():
        new.gate = break_gates.Gate()
    with _one_at_a_time:
        breaks.put(new)
        missed = watch(True, wait)
    counts = {"counts": break_gates.counts()} if new.gate is not None else {}
    return {**found, "missed": missed, **counts}


def _find(file: str, line: int) -> dict[str, Any]:
    """Where FILE:LINE is in the code of this process, or in files that it may load later."""
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
        # The text is not on this machine, or has changed since it was loaded.
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


def clear(file: str | None, line: int | None, wait: float = MAIN_SECONDS) -> dict[str, Any]:
    """Clear one break, or all. Returns their files and lines."""
    with _one_at_a_time:
        cleared = [(entry.file, entry.line) for entry in breaks.everyone()]
        if file is not None:
            wanted = os.path.normpath(file)
            cleared = [
                (name, number)
                for name, number in cleared
                if number == line
                and (sources.matches(wanted, name) or sources.matches(name, wanted))
            ]
        breaks.remove(cleared)
        missed = watch(bool(breaks.everyone()), wait) if cleared else []
    return {"cleared": [list(key) for key in cleared], "missed": missed}


def _alike(file: str, known: set[str]) -> list[str]:
    """Files of the same name elsewhere, else files with a similar name."""
    import difflib

    name = os.path.basename(file)
    names = {os.path.basename(path) for path in known}
    near = [name] if name in names else difflib.get_close_matches(name, sorted(names), 3, 0.8)
    return sorted(path for path in known if os.path.basename(path) in near)


def _after_fork() -> None:
    """The thread that held the lock is not in the child."""
    global _one_at_a_time
    _one_at_a_time = threads.new_lock()


active.after_fork.append(_after_fork)
