"""Which threads the debugger traces: all while an editor is attached, none afterwards.

Imported together with debug_adapter. Until Python 3.11 only a thread itself can turn on its
tracing, unless debugpy has its helper library for this processor. Since 3.12 the debugger uses
sys.monitoring instead.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from rankdbg.agent import active, stacks, threads, workers
from rankdbg.agent.editor import editor_stops
from rankdbg.agent.stops import sources

BEFORE_MONITORING = sys.version_info < (3, 12)
# The main thread responds in milliseconds, unless it waits in C.
_BEGIN_SECONDS = 0.3
_END_SECONDS = 0.5


def begin() -> None:
    """Trace the threads that the debugger's own call has not reached."""
    if BEFORE_MONITORING and _helper() is None:
        # The main thread in a pending call; a thread that gets its work from a framework when it
        # begins the next piece of work.
        if _join not in workers.at_begin:
            workers.at_begin.append(_join)
        threads.call_in_main(_join, _BEGIN_SECONDS)


def end() -> None:
    """stoptrace() reaches only the calling thread, and on Python 3.11 a function that is still
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
    """debugpy's helper library, which turns on the tracing of other threads. It exists for some
    processors only."""
    return sys.modules["pydevd_tracing"]._load_python_helper_lib()


def _join() -> None:
    """In a thread of the program: trace it while an editor is attached, else stop tracing it."""
    debugger = editor_stops.current()
    if debugger is not None:
        debugger.enable_tracing()
    else:
        _untrace()


def _let_go(frame: FrameType, event: str, argument: Any) -> None:
    sys.settrace(None)


def _untrace() -> None:
    """In a thread of the program. Breaks that clients of rankdbg have set are noticed again."""
    current = sys.gettrace()
    if current is _let_go or _is_debuggers(current):
        sys.settrace(None)
    if active.trace_breaks is not None:
        active.trace_breaks()


def clear(innermost: FrameType) -> None:
    for frame in stacks.walk(innermost):
        if _is_debuggers(frame.f_trace):
            frame.f_trace = None


def _is_debuggers(function: Any) -> bool:
    """Whether a trace function is pydevd's: one of its functions, bare or in a partial, a method of
    its objects, or an object of a compiled class, which has no __module__ itself."""
    function = getattr(function, "func", function)
    owner = getattr(function, "__self__", function)
    return "pydevd" in str(getattr(owner, "__module__", type(owner).__module__))


def _watch_no_code() -> None:
    """Turn off the events of functions that had a breakpoint or were stepped: before Python 3.14,
    freeing the debugger's identifier leaves them on."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    number = monitoring.DEBUGGER_ID
    if monitoring.get_tool(number) is not None:
        return  # of another debugger that is attached now
    monitoring.use_tool_id(number, "rankdbg")
    try:
        for code in sources.with_nested(sources.alive()):
            if monitoring.get_local_events(number, code):
                monitoring.set_local_events(number, code, 0)
    finally:
        monitoring.free_tool_id(number)
