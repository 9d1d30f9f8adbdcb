"""Which threads the debugger traces: all while an editor is here, none when it has left.

Imported together with dap. Until Python 3.11 only a thread itself can have itself traced, unless
debugpy has a piece of C for the processor; since 3.12 the debugger has events of code instead.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from rankdbg.agent import dap_stops, sources, stacks, threads, workers

BEFORE_MONITORING = sys.version_info < (3, 12)
# The main thread is there in milliseconds, unless it waits in C.
_BEGIN_SECONDS = 0.3
_END_SECONDS = 0.5


def begin() -> None:
    """The debugger's own call has reached those that it can."""
    if BEFORE_MONITORING and _helper() is None:
        # The main thread at its next chance, one that gets its work from a framework when it
        # begins the next piece.
        if _join not in workers.at_begin:
            workers.at_begin.append(_join)
        threads.call_in_main(_join, _BEGIN_SECONDS)


def end() -> None:
    """stoptrace() reaches the calling thread alone, and on Python 3.11 a function that is merely
    traced runs eight times slower. Since 3.12 it leaves the events of single functions on."""
    if not BEFORE_MONITORING:
        _watch_no_code()
        return
    if _helper() is not None:
        for ident in threads.living() - threads.own:
            sys.modules["pydevd_tracing"].set_trace_to_threads(_let_go, [ident], False)
    threads.call_in_main(_untrace, _END_SECONDS)
    for innermost in sys._current_frames().values():
        clear(innermost)


def _helper() -> Any:
    """debugpy's piece of C, which there is for some processors: has other threads traced."""
    return sys.modules["pydevd_tracing"]._load_python_helper_lib()


def _join() -> None:
    """In a thread of the program: traced while an editor is here, and not afterwards."""
    debugger = dap_stops.current()
    if debugger is not None:
        debugger.enable_tracing()
    else:
        _untrace()


def _let_go(frame: FrameType, event: str, argument: Any) -> None:
    sys.settrace(None)


def _untrace() -> None:
    """In the main thread. Breaks that clients of rankdbg have set are noticed again."""
    current = sys.gettrace()
    if current is _let_go or _is_debuggers(current):
        sys.settrace(None)
    break_tracing: Any = sys.modules.get("rankdbg.agent.break_tracing")
    if break_tracing is not None:
        break_tracing.resume()


def clear(innermost: FrameType) -> None:
    for frame in stacks.walk(innermost):
        if _is_debuggers(frame.f_trace):
            frame.f_trace = None


def _is_debuggers(function: Any) -> bool:
    """Whether a trace function is pydevd's: one of its functions, bare or in a partial, or a
    method of its objects."""
    function = getattr(function, "func", function)
    owner = getattr(function, "__self__", function)
    return "pydevd" in str(getattr(owner, "__module__", ""))


def _watch_no_code() -> None:
    """A function that had a breakpoint, or was stepped through, would go on to tell of each of
    its lines: freeing the debugger's number does not change that before Python 3.14."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    number = monitoring.DEBUGGER_ID
    if monitoring.get_tool(number) is not None:
        return  # another debugger has come: its events must not be touched
    monitoring.use_tool_id(number, "rankdbg")
    try:
        for code in sources.with_nested(sources.alive()):
            if monitoring.get_local_events(number, code):
                monitoring.set_local_events(number, code, 0)
    finally:
        monitoring.free_tool_id(number)
