"""Lines with breaks, noticed by a trace function (Python 3.10 and 3.11).

Every call of a Python function is seen, lines only in code with breaks. Most calls cost no
more than a look at the line at which the function begins: in a frame that is cheap, while its
code is behind an audit event, which takes longer than the call itself. A thread can set
its own trace function only: the main thread does so in a pending call, those that
threading starts later as they begin, an actor's when it gets its next message; the others
are not reached. While a thread is being
stepped through, its pdb is the trace function, and asks `breaks` itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any

from rankdbg.agent import breaks, debugger, sources, stacks, stops, threads, workers

MAIN_SECONDS = 0.5  # the main thread is there in milliseconds, unless it waits in C

# Where the text of a whole file, or of a class, begins: it makes functions that are new.
_BEGINNINGS = (0, 1)
_CO_OPTIMIZED = 1  # a function


class _Anywhere:
    """In place of a set of lines: all of them."""

    def __contains__(self, line: object) -> bool:
        return True


_active = False
# Lines at which code with breaks can be entered, and those with breaks, of whichever file.
_entries: set[int] | _Anywhere = _Anywhere()
_lines: frozenset[int] = frozenset()
_reached: set[int] = set()
_before: dict[int, Any] = {}  # thread -> the trace function that it had
_hook_before: Any = None


def watch(anything: bool) -> list[str]:
    """The breaks have changed. The names of the threads that do not notice them."""
    global _active, _hook_before, _entries, _lines
    threading: Any = sys.modules.get("threading")
    if threading is not None and anything and threading._trace_hook is not _begin:
        _hook_before = threading._trace_hook
        threading.settrace(_begin)
    if threading is not None and not anything and threading._trace_hook is _begin:
        threading.settrace(_hook_before)
    _active = anything
    _lines = frozenset(entry.line for entry in breaks.everyone())
    _entries = _all_entries() if anything else _Anywhere()
    # One that stands in pdb is told by pdb when it goes on.
    stands = stops.of_thread(threads.main_thread()) is not None
    arrived = threads.call_in_main(resume, 0.0 if stands else MAIN_SECONDS)
    return _missed(arrived) if anything else []


def _all_entries() -> set[int]:
    entries = set(_BEGINNINGS)
    _learn(entries, sources.alive())
    for file in {file for entry in breaks.everyone() for file in entry.files}:
        _learn(entries, sources.compiled(file))
    return entries


def _learn(entries: set[int], codes: Iterable[CodeType]) -> None:
    """Where the code with breaks among these, and in these, is entered."""
    for code in codes:
        if breaks.of_file(code.co_filename):
            for inner in sources.with_nested([code]):
                if breaks.are_in(inner):
                    entries.update(sources.entry_lines(inner))


def _missed(main_arrived: bool) -> list[str]:
    main, missed = threads.main_thread(), []
    for ident, frame in sys._current_frames().items():
        *_, outermost = stacks.walk(frame)
        reached = main_arrived if ident == main else ident in _reached
        reached = reached or workers.joins_by_itself(ident)
        if not (reached or stops.of_thread(ident) or threads.is_own(outermost)):
            missed.append(stacks.thread_name(ident))
    return sorted(missed)


def resume() -> None:
    """In a thread of the program: trace it from here on, or no longer."""
    current = sys.gettrace()
    ident = threads.get_ident()
    if _is_pdb(getattr(current, "__self__", None)):
        local: Any = current
    else:
        local = _trace_lines
        if _active and current is not _trace_calls:
            _before[ident] = current
        if _active:
            _reached.add(ident)
        elif current is not _trace_calls:
            return
    for frame in stacks.walk(sys._getframe(1)):
        owner = getattr(frame.f_trace, "__self__", None)
        if _active and breaks.are_in(frame.f_code):
            frame.f_trace = local
        elif frame.f_trace is _trace_lines or (local is _trace_lines and _is_pdb(owner)):
            frame.f_trace = None
    if local is _trace_lines:
        sys.settrace(_trace_calls if _active else _before.pop(ident, None))


def _is_pdb(owner: object) -> bool:
    return isinstance(owner, debugger.RankPdb)


def _begin(frame: FrameType, event: str, argument: Any) -> Any:
    """The first event of a thread that threading has started."""
    _reached.add(threads.get_ident())
    sys.settrace(_trace_calls)
    return _trace_calls(frame, event, argument)


def _trace_calls(frame: FrameType, event: str, argument: Any) -> Any:
    # All that a break costs a program that does not come near it.
    return _enter(frame) if frame.f_lineno in _entries else None


def _enter(frame: FrameType) -> Any:
    if not _active:
        sys.settrace(_before.pop(threads.get_ident(), None))
        return None
    code = frame.f_code
    if isinstance(_entries, set) and not code.co_flags & _CO_OPTIMIZED:
        _learn(_entries, [code])
    return _trace_lines if breaks.are_in(code) else None


def _trace_lines(frame: FrameType, event: str, argument: Any) -> Any:
    if event == "line" and frame.f_lineno in _lines:
        found = breaks.at(frame)
        why = found.meet(frame) if found is not None else None
        if why is not None:
            debugger.of_this_thread().stop_now(frame, "breakpoint", why)
            return frame.f_trace
    return _trace_lines


workers.at_begin.insert(0, resume)  # before a pause, which lasts for one line only
