"""`rankdbg pause`: the main thread stops at the next line of Python that it executes.

Where other threads do the program's work (workers.py), the one at work stops. Before Python 3.12
such a thread cannot be reached from another one: it stops when it begins its next piece of work.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from rankdbg.agent import active, stacks, threads, workers
from rankdbg.agent.stops import break_events, debugger, stopped_threads
from rankdbg.agent.stops.break_events import monitoring
from rankdbg.process.user_code import is_agent, is_user_code

WAIT_SECONDS = 1.0  # a thread that executes no line of Python in this time is in C
_POLL_SECONDS = 0.002

_wanted = False
_thread = 0  # the one to stop
_tool: int | None = None
_one_at_a_time = threads.new_lock()


def pause(seconds: float, wait: float = WAIT_SECONDS) -> dict[str, Any]:
    """Ask the main thread to stop, and report whether it has."""
    latest = time.monotonic() + seconds
    deadline = min(latest, time.monotonic() + wait)
    if _debugged() is None:
        _ask()
    while (stop := _debugged()) is None and time.monotonic() < deadline:
        threads.pause(_POLL_SECONDS)
    if stop is None:
        state = "blocked" if _reaches_running() else "later"
        return {"state": state, "where": stacks.where(), "output": ""}
    _withdraw()  # the thread may have stopped for another reason
    # pdb needs a moment before its first prompt.
    deadline = min(latest, time.monotonic() + wait)
    while (report := stop.report())["state"] == "running" and time.monotonic() < deadline:
        threads.pause(_POLL_SECONDS)
    return report


def cancel() -> dict[str, Any]:
    """Cancel a pause that has not taken effect."""
    return {
        "state": "cancelled" if _withdraw() else "none",
        "where": stacks.where(),
        "output": "",
    }


def _after_fork() -> None:
    """The pause was meant for the parent."""
    global _one_at_a_time
    _one_at_a_time = threads.new_lock()
    _withdraw()


def _debugged() -> stopped_threads.Stop | None:
    """The stop of the main thread, unless it executes a command such as `next`."""
    stop = stopped_threads.of_thread(workers.program_thread())
    if stop is None or (stop.frame is None and stop.report()["state"] != "stopped"):
        return None
    return stop


def _reaches_running() -> bool:
    on_its_own = workers.program_thread() == threads.main_thread()
    return sys.version_info >= (3, 12) or on_its_own


def _ask() -> None:
    global _wanted, _thread
    with _one_at_a_time:
        if _wanted:  # an earlier pause has not taken effect yet
            return
        if sys.version_info >= (3, 12):
            _begin_events()
        _wanted, _thread = True, workers.program_thread()
    if sys.version_info < (3, 12) and _reaches_running():
        threads.call_in_main(_stop_here, 0.0)


def _withdraw(seconds: float = 1.0) -> bool:
    """Returns whether a pause was wanted until now. Waits no longer than this for the lock: the
    caller may be the program's own thread."""
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
    """Runs in the main thread, before Python 3.12."""
    wanted = _withdraw()
    frame = sys._getframe(1)
    while is_agent(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    if wanted and _debugged() is None:
        debugger.of_this_thread().stop_at(frame, "pause")


def resume() -> None:
    """In a thread that begins a piece of work, before Python 3.12: stop at its first line, if a
    pause is wanted."""
    if _wanted and not _reaches_running():
        before = sys.gettrace()

        def stop_at_first_line(frame: Any, event: str, argument: Any) -> Any:
            if not _wanted:  # cancelled
                sys.settrace(before)
                return None
            file = frame.f_code.co_filename
            if file == "<string>" or not is_user_code(
                file
            ):  # dataclasses generate code in <string>
                return None
            if event != "line" or not _withdraw(0.0):
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
    if _withdraw(0.0):  # else another thread has the lock: try again at the next line
        debugger.of_this_thread().stop_now(sys._getframe(1), "pause")


if sys.version_info < (3, 12):
    workers.at_begin.append(resume)
active.cancel_pause = _withdraw
active.after_fork.append(_after_fork)
