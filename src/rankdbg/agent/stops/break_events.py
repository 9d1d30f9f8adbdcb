"""Notices lines with breaks through sys.monitoring (Python 3.12 and later).

Only code objects with breaks send events of lines. A code object is examined once, when it is
called or resumed the next time, or at once if it is executing now. So a break that is not hit
costs nothing.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

from rankdbg.agent.stops import breaks, debugger, sources

monitoring: Any = getattr(sys, "monitoring", None)

_tool: int | None = None
_watched: dict[int, CodeType] = {}


def free_tool() -> int:
    """An identifier that no debugger, profiler or coverage tool of the program uses. Python
    reserves 3 and 4 for no kind of tool."""
    for number in (4, 3, 0, 2, 1):
        if monitoring.get_tool(number) is None:
            monitoring.use_tool_id(number, "rankdbg")
            return number
    raise RuntimeError("other tools use all of sys.monitoring's identifiers")


def watch(anything: bool, wait: float) -> list[str]:
    """Called when the breaks have changed. Returns the threads that do not notice them: none."""
    global _tool
    if _tool is None and anything:
        _tool = free_tool()
        events = monitoring.events
        monitoring.register_callback(_tool, events.PY_START, _on_begin)
        monitoring.register_callback(_tool, events.PY_RESUME, _on_begin)
        monitoring.register_callback(_tool, events.LINE, _on_line)
    if _tool is None:
        return []
    # A copy: another thread may call a function meanwhile.
    for code in [code for code in list(_watched.values()) if not breaks.are_in(code)]:
        monitoring.set_local_events(_tool, code, 0)
        del _watched[id(code)]
    if anything:
        monitoring.set_events(_tool, monitoring.events.PY_START | monitoring.events.PY_RESUME)
        for code in sources.executing():
            _examine(code)
        monitoring.restart_events()  # code that was examined before may have a break now
    else:
        _end()
    return []


def _end() -> None:
    global _tool
    events = monitoring.events
    monitoring.set_events(_tool, 0)
    for event in (events.PY_START, events.PY_RESUME, events.LINE):
        monitoring.register_callback(_tool, event, None)
    monitoring.free_tool_id(_tool)
    _tool = None


def _examine(code: CodeType) -> None:
    if id(code) not in _watched and breaks.are_in(code):
        _watched[id(code)] = code
        monitoring.set_local_events(_tool, code, monitoring.events.LINE)


def _on_begin(code: CodeType, offset: int) -> Any:
    if _tool is not None:
        _examine(code)
    return monitoring.DISABLE


def _on_line(code: CodeType, line: int) -> Any:
    found = breaks.of_file(code.co_filename).get(line)
    if found is None:
        return monitoring.DISABLE
    frame = sys._getframe(1)
    why = found.reason_to_stop(frame)
    if why is not None:
        debugger.of_this_thread().stop_now(frame, "breakpoint", why)
    return None
