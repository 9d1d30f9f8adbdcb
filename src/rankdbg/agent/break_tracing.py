"""Lines with breaks, noticed by a trace function (Python 3.10 and 3.11).

Every call of a Python function is seen, lines only in code with breaks. A thread can set
its own trace function only: the main thread does so in a pending call, those that
threading starts later as they begin; the others are not reached. While a thread is being
stepped through, its pdb is the trace function, and asks `breaks` itself.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from rankdbg.agent import breaks, debugger, stacks, stops, threads

MAIN_SECONDS = 0.5  # the main thread is there in milliseconds, unless it waits in C

_active = False
_reached: set[int] = set()
_before: dict[int, Any] = {}  # thread -> the trace function that it had
_hook_before: Any = None


def watch(anything: bool) -> list[str]:
    """The breaks have changed. The names of the threads that do not notice them."""
    global _active, _hook_before
    threading: Any = sys.modules.get("threading")
    if threading is not None and anything and threading._trace_hook is not _begin:
        _hook_before = threading._trace_hook
        threading.settrace(_begin)
    if threading is not None and not anything and threading._trace_hook is _begin:
        threading.settrace(_hook_before)
    _active = anything
    # One that stands in pdb is told by pdb when it goes on.
    stands = stops.of_thread(threads.main_thread()) is not None
    arrived = threads.call_in_main(resume, 0.0 if stands else MAIN_SECONDS)
    return _missed(arrived) if anything else []


def _missed(main_arrived: bool) -> list[str]:
    main, missed = threads.main_thread(), []
    for ident, frame in sys._current_frames().items():
        *_, outermost = stacks.walk(frame)
        reached = main_arrived if ident == main else ident in _reached
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
    # All that a break costs is here: look-ups, and calls only for what is seen first.
    code = frame.f_code
    found = breaks._by_file.get(code.co_filename)
    if found is None:
        found = breaks.of_file(code.co_filename)
    if not found:
        if not _active:
            sys.settrace(_before.pop(threads.get_ident(), None))
        return None
    known = breaks._by_code.get(id(code))
    return _trace_lines if (known[1] if known else breaks.are_in(code)) else None


def _trace_lines(frame: FrameType, event: str, argument: Any) -> Any:
    if event == "line":
        found = breaks.at(frame)
        why = found.meet(frame) if found is not None else None
        if why is not None:
            debugger.of_this_thread().stop_now(frame, "breakpoint", why)
            return frame.f_trace
    return _trace_lines
