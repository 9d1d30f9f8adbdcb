"""A rank under nsys: starts and stops the capture for a range of steps, or on request.

nsys waits for cudaProfilerStart() and cudaProfilerStop(). Each is called once. The stop comes when
the program exits at the latest, and the program then waits for the report: a launcher that sees a
rank exit may kill its remaining processes, nsys too.
"""

from __future__ import annotations

import os

from rankdbg.agent import active, card, messages, threads
from rankdbg.agent.nsys import nsys_report, termination
from rankdbg.agent.profilers import cuda_profiler
from rankdbg.process.nsys_config import LATER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rankdbg.process.nsys_config import Steps

_state = "idle"  # whole (from start to end); or: waiting, on (for the steps) or asked for, over
_steps: Steps = (0, 0)
_report = ""
_pid = 0
_nsys = 0
_lock = threads.new_lock()


def arm(steps: Steps | None, report: str) -> None:
    """`report` is the path of nsys's report, `` if it is not known."""
    global _state, _steps, _report, _pid, _nsys
    _state, _steps, _report = "waiting" if steps else "whole", steps or LATER, report
    _pid, _nsys = os.getpid(), nsys_report.find_nsys()
    if steps:
        card.at_step = at_step
    active.at_exit.append(_at_exit)
    termination.hold(hand_over)


def at_step(step: int) -> None:
    """The program has reported this step."""
    try:
        within = _steps[0] <= step < _steps[1]
    except Exception:  # the program may pass anything
        return
    if _state == "waiting" and within:
        _turn("waiting", "on")
    elif _state == "on" and not within:
        _turn("on", "over")


def _at_exit() -> None:
    if os.getpid() != _pid:  # the child of a fork
        return
    first, end = _steps
    if _state == "waiting" and _steps == LATER:
        _say("no report: none was requested; request one with: rankdbg profile RANKS --kind nsys")
    elif _state == "waiting":
        last = f"the last step was {card.step}"
        if card.step is None:
            last = "it was never called"
        _say(f"no report: rankdbg.progress() reported no step in {first}:{end} ({last})")
    _end()
    if _state == "over" and _report:
        path, why = nsys_report.wait_for(_report, _nsys)
        message = f"no report: {why}" if why else nsys_report.advice(path)
        if message:
            _say(message)


def hand_over() -> None:
    """Before the process is terminated: flush what has been captured, so that nsys gets it."""
    if os.getpid() != _pid:
        return
    if _state == "whole":
        if cuda_profiler.is_used():
            cuda_profiler.call("Stop", in_its_thread=False)  # flushes; nsys keeps running
        return
    _end(in_its_thread=False)
    if _state == "over" and _report:
        nsys_report.wait_until_begun(_report, _nsys)


def begin_now() -> str:
    """Without waiting for a step. Returns the reason if that is not possible, else ``."""
    if os.getpid() != _pid or _state in ("idle", "whole"):
        return (
            "it was not started under a waiting nsys; "
            "next time: rankdbg run --nsys PATTERN --nsys-steps later -- ..."
        )
    if _state != "waiting":
        now = "has already captured" if _state == "over" else "is already capturing"
        return f"nsys {now} this rank, and can do so only once"
    return _turn("waiting", "asked for", in_its_thread=False)


def end_now() -> tuple[str, str]:
    """The report, once it is complete; or the reason why there is none."""
    why = _turn("asked for", "over", in_its_thread=False)
    if not why and not _report:
        why = "the path of nsys's report is not known here; rankdbg collect searches for it"
    return ("", why) if why else nsys_report.wait_for(_report, _nsys)


def _end(in_its_thread: bool = True) -> None:
    """Stop the capture, if it has been started for steps or on request."""
    _turn("on", "over", in_its_thread)
    _turn("asked for", "over", in_its_thread)


def _turn(before: str, after: str, in_its_thread: bool = True) -> str:
    """Change the state: in one thread only, and only in the process that was armed. Returns why
    that failed, or ``."""
    global _state
    with _lock:
        if _state != before or os.getpid() != _pid:
            return ""
        _state = after
    if after != "on":  # steps have no effect any more
        card.at_step = None
    why = cuda_profiler.call("Stop" if after == "over" else "Start", in_its_thread)
    if why and after == "asked for":  # the client may try again
        _state, card.at_step = before, at_step
    elif why:
        _say(f"no capture: {why}")
        _state, card.at_step = "idle", None
    return why


def _say(line: str) -> None:
    messages.write(f"process {os.getpid()}: {line}")
