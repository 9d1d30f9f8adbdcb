"""Notices lines with breaks by a trace function (Python 3.10 and 3.11).

It sees every call of a Python function, and lines only in code with breaks. For most calls it
compares no more than the line at which the function begins: reading a frame's line is cheap,
while reading its code raises an audit event, which takes longer than the call itself.

A thread can set only its own trace function. The main thread does so in a pending call, a thread
that threading starts later at its first event, an actor's thread with its next message. Other
threads are not reached. While a thread is stepped in pdb, pdb is its trace function and asks
`breaks` itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any

from rankdbg.agent import active, stacks, threads, workers
from rankdbg.agent.stops import breaks, debugger, sources, stopped_threads

# First lines of modules and classes: executing them creates new functions.
_BEGINNINGS = (0, 1)
_CO_OPTIMIZED = 1  # a function


class _Anywhere:
    """A set of all lines."""

    def __contains__(self, line: object) -> bool:
        return True


_active = False
# Lines at which code with breaks can be entered, and lines with breaks, of all files together.
_entries: set[int] | _Anywhere = _Anywhere()
_lines: frozenset[int] = frozenset()
_reached: set[int] = set()
_before: dict[int, Any] = {}  # thread -> its trace function before ours
_hook_before: Any = None


def watch(anything: bool, wait: float) -> list[str]:
    """Called when the breaks have changed. Returns the threads that do not notice them: also the
    main thread, if it takes longer than `wait`."""
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
    # A thread that is stopped in pdb calls resume() when it continues.
    stopped = stopped_threads.of_thread(threads.main_thread()) is not None
    main_reached = threads.call_in_main(resume, 0.0 if stopped else wait)
    return _missed(main_reached) if anything else []


def _all_entries() -> set[int]:
    entries = set(_BEGINNINGS)
    _add_entries(entries, sources.alive())
    for file in {file for entry in breaks.everyone() for file in entry.files}:
        _add_entries(entries, sources.compiled(file))
    return entries


def _add_entries(entries: set[int], codes: Iterable[CodeType]) -> None:
    """Add the lines at which code with breaks, among these and nested in these, is entered."""
    for code in codes:
        if breaks.of_file(code.co_filename):
            for inner in sources.with_nested([code]):
                if breaks.are_in(inner):
                    entries.update(sources.entry_lines(inner))


def _missed(main_reached: bool) -> list[str]:
    main, missed = threads.main_thread(), []
    for ident, frame in sys._current_frames().items():
        *_, outermost = stacks.walk(frame)
        reached = main_reached if ident == main else ident in _reached
        reached = reached or workers.joins_by_itself(ident)
        if not (reached or stopped_threads.of_thread(ident) or threads.is_own(outermost)):
            missed.append(stacks.thread_name(ident))
    return sorted(missed)


def resume() -> None:
    """In a thread of the program: start to trace it, or stop, as the breaks require."""
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
    # All that a break costs in functions without breaks.
    return _enter(frame) if frame.f_lineno in _entries else None


def _enter(frame: FrameType) -> Any:
    if not _active:
        sys.settrace(_before.pop(threads.get_ident(), None))
        return None
    code = frame.f_code
    if isinstance(_entries, set) and not code.co_flags & _CO_OPTIMIZED:
        _add_entries(_entries, [code])
    return _trace_lines if breaks.are_in(code) else None


def _trace_lines(frame: FrameType, event: str, argument: Any) -> Any:
    if event == "line" and frame.f_lineno in _lines:
        found = breaks.at(frame)
        why = found.reason_to_stop(frame) if found is not None else None
        if why is not None:
            debugger.of_this_thread().stop_now(frame, "breakpoint", why)
            return frame.f_trace
    return _trace_lines


workers.at_begin.insert(0, resume)  # before pauses.resume(), which restores it after one line
active.trace_breaks = resume
active.after_fork.append(resume)  # after the debugger's, which ends the tracing of the parent
