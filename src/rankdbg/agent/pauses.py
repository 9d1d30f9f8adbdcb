"""`rankdbg pause`: the main thread stops at the next line of Python that it executes.

Where others do the program's work (workers.py) it is the one at work. Before Python 3.12 that
one cannot be reached from outside: it stops when it begins its next piece of work.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from rankdbg.agent import break_events, debugger, stacks, stops, threads, workers
from rankdbg.agent.break_events import monitoring
from rankdbg.user_code import is_agent, is_user_code

PATIENCE = 1.0  # a thread that executes no line of Python for so long is in C
_LOOK_EVERY = 0.002

_wanted = False
_thread = 0  # which is to stop
_tool: int | None = None
_one_at_a_time = threads.new_lock()


def pause(seconds: float) -> dict[str, Any]:
    """Ask the main thread to stop, and say whether it has."""
    latest = time.monotonic() + seconds
    deadline = min(latest, time.monotonic() + PATIENCE)
    if _debugged() is None:
        _ask()
    while (stop := _debugged()) is None and time.monotonic() < deadline:
        threads.pause(_LOOK_EVERY)
    if stop is None:
        state = "blocked" if _reaches_running() else "later"
        return {"state": state, "where": stacks.where(), "output": ""}
    _take_back()  # where it has stopped for another reason
    # pdb has things to do before it wants its first command; or it is at one already.
    deadline = min(latest, time.monotonic() + PATIENCE)
    while (report := stop.report())["state"] == "running" and time.monotonic() < deadline:
        threads.pause(_LOOK_EVERY)
    return report


def cancel() -> dict[str, Any]:
    """A pause that has not come about shall not."""
    return {
        "state": "cancelled" if _take_back() else "none",
        "where": stacks.where(),
        "output": "",
    }


def after_fork() -> None:
    """It was the parent that was to stop."""
    global _one_at_a_time
    _one_at_a_time = threads.new_lock()
    _take_back()


def _debugged() -> stops.Stop | None:
    """The stop in which the main thread stands, if it is not being stepped through."""
    stop = stops.of_thread(workers.program_thread())
    if stop is None or (stop.frame is None and stop.report()["state"] != "stopped"):
        return None
    return stop


def _reaches_running() -> bool:
    on_its_own = workers.program_thread() == threads.main_thread()
    return sys.version_info >= (3, 12) or on_its_own


def _ask() -> None:
    global _wanted, _thread
    with _one_at_a_time:
        if _wanted:  # still, from the last time
            return
        if sys.version_info >= (3, 12):
            _begin_events()
        _wanted, _thread = True, workers.program_thread()
    if sys.version_info < (3, 12) and _reaches_running():
        threads.call_in_main(_stop_here, 0.0)


def _take_back(seconds: float = 1.0) -> bool:
    """Whether it was wanted until now. The program's own thread must never wait for ever: in
    the child of a fork, whoever has the lock may be gone."""
    global _wanted
    if not _one_at_a_time.acquire(timeout=seconds):
        return False
    try:
        was, _wanted = _wanted, False
        _end_events()
    finally:
        _one_at_a_time.release()
    return was


def _stop_here() -> None:
    """In the main thread, before 3.12, wherever it was."""
    wanted = _take_back()
    frame = sys._getframe(1)
    while is_agent(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    if wanted and _debugged() is None:
        debugger.of_this_thread().stop_at(frame, "pause")


def resume() -> None:
    """In a thread that begins a piece of work, before 3.12: stop at its first line, if wanted."""
    if _wanted and not _reaches_running():
        before = sys.gettrace()

        def stop_at_first_line(frame: Any, event: str, argument: Any) -> Any:
            if not _wanted:  # no longer
                sys.settrace(before)
                return None
            file = frame.f_code.co_filename
            if file == "<string>" or not is_user_code(file):  # what dataclasses generate
                return None
            if event != "line" or not _take_back(0.0):
                return stop_at_first_line
            sys.settrace(before)
            debugger.of_this_thread().stop_now(frame, "pause")
            return frame.f_trace

        sys.settrace(stop_at_first_line)


# --- Python 3.12 and later ------------------------------------------------------------


def _begin_events() -> None:
    global _tool
    if _tool is None:
        _tool = break_events.free_tool()
        events = monitoring.events
        monitoring.register_callback(_tool, events.LINE, _on_event)
        monitoring.register_callback(_tool, events.JUMP, _on_event)  # a loop in one line
        monitoring.set_events(_tool, events.LINE | events.JUMP)


def _end_events() -> None:
    global _tool
    tool, _tool = _tool, None
    if tool is not None:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.LINE, None)
        monitoring.register_callback(tool, monitoring.events.JUMP, None)
        monitoring.free_tool_id(tool)


def _on_event(code: Any, *place: int) -> None:
    if threads.get_ident() != _thread or is_agent(code.co_filename):
        return
    if _take_back(0.0):  # else the next line will do
        debugger.of_this_thread().stop_now(sys._getframe(1), "pause")


if sys.version_info < (3, 12):
    workers.at_begin.append(resume)
