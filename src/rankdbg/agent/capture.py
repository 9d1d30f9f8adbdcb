"""A rank under nsys: capture begins and ends where a range of steps does, or when one is asked.

nsys waits for cudaProfilerStart() and cudaProfilerStop(). Both are called once; at the end of
the program at the latest, which then waits for the report: a launcher that sees a rank end may
kill all that is left of it, nsys too.
"""

from __future__ import annotations

import os
import sys

from rankdbg.agent import card, cuda_profiler, nsys_report, termination, threads
from rankdbg.nsys import LATER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rankdbg.nsys import Steps

_state = "idle"  # whole (from start to end); or: waiting, on (for the steps) or asked for, over
_steps: Steps = (0, 0)
_report = ""
_pid = 0
_nsys = 0
_lock = threads.new_lock()


def arm(steps: Steps | None, report: str) -> None:
    """`report` is the path at which nsys will write, `` where that is not known."""
    global _state, _steps, _report, _pid, _nsys
    _state, _steps, _report = "waiting" if steps else "whole", steps or LATER, report
    _pid, _nsys = os.getpid(), nsys_report.find_nsys()
    if steps:
        card.at_step = at_step
    termination.hold(hand_over)


def at_step(step: int) -> None:
    """The program has come to this step."""
    try:
        within = _steps[0] <= step < _steps[1]
    except Exception:  # it may tell anything
        return
    if _state == "waiting" and within:
        _turn("waiting", "on")
    elif _state == "on" and not within:
        _turn("on", "over")


def at_exit() -> None:
    if os.getpid() != _pid:  # the child of a fork
        return
    first, end = _steps
    if _state == "waiting" and _steps == LATER:
        _say("no report: nobody has asked for one: rankdbg profile RANKS --kind nsys")
    elif _state == "waiting":
        last = f"the last was {card.step}"
        if card.step is None:
            last = "it calls rankdbg.progress(step) nowhere"
        _say(f"no report: the program told no step of {first}:{end} ({last})")
    _end()
    if _state == "over" and _report:
        path, why = nsys_report.wait_for(_report, _nsys)
        told = f"no report: {why}" if why else nsys_report.advice(path)
        if told:
            _say(told)


def hand_over() -> None:
    """What has been captured until now, before the process ends: nsys has to do with the rest."""
    if os.getpid() != _pid:
        return
    if _state == "whole":
        if cuda_profiler.is_used():
            cuda_profiler.call("Stop", in_its_thread=False)  # nsys goes on, and takes what there is
        return
    _end(in_its_thread=False)
    if _state == "over" and _report:
        nsys_report.wait_until_begun(_report, _nsys)


def begin_now() -> str:
    """Without waiting for a step. Why that cannot be, or ``."""
    if os.getpid() != _pid or _state in ("idle", "whole"):
        return (
            "no nsys waits for it; next time: rankdbg run --nsys PATTERN --nsys-steps later -- ..."
        )
    if _state != "waiting":
        now = "has captured it already" if _state == "over" else "captures it just now"
        return f"nsys {now}, and does so once"
    return _turn("waiting", "asked for", in_its_thread=False)


def end_now() -> tuple[str, str]:
    """The report, once it is whole; or why there is none."""
    why = _turn("asked for", "over", in_its_thread=False)
    if not why and not _report:
        why = "where nsys writes its report is not known here: rankdbg collect looks for it"
    return ("", why) if why else nsys_report.wait_for(_report, _nsys)


def _end(in_its_thread: bool = True) -> None:
    """Whichever way it has begun, if it has."""
    _turn("on", "over", in_its_thread)
    _turn("asked for", "over", in_its_thread)


def _turn(before: str, after: str, in_its_thread: bool = True) -> str:
    """Only one thread does, and only in the process that was armed. Why it has failed, or ``."""
    global _state
    with _lock:
        if _state != before or os.getpid() != _pid:
            return ""
        _state = after
    if after != "on":  # steps do not matter any more
        card.at_step = None
    why = cuda_profiler.call("Stop" if after == "over" else "Start", in_its_thread)
    if why and after == "asked for":  # whoever has asked may ask again
        _state, card.at_step = before, at_step
    elif why:
        _say(f"no capture: {why}")
        _state, card.at_step = "idle", None
    return why


def _say(line: str) -> None:
    try:
        sys.stderr.write(f"rankdbg: process {os.getpid()}: {line}\n")
    except Exception:  # closed, or None
        pass
