"""A rank under nsys: capture begins and ends where a range of steps does, or when one is asked.

nsys waits for cudaProfilerStart() and cudaProfilerStop(). Both are called once; at the end of
the program at the latest, which then waits for the report: a launcher that sees a rank end may
kill all that is left of it, nsys too.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

from rankdbg.agent import card, threads
from rankdbg.nsys import LATER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rankdbg.nsys import Steps

# For the report at the end of the program; RANKDBG_NSYS_WAIT is the user's word.
WAIT_SECONDS = 30.0
# A report whose size is the same for so long is whole.
REST_SECONDS = 1.0
# Where this much is not free, nothing more will come.
LEAST_FREE = 1 << 16
_LIBRARIES = ("libcudart.so", *(f"libcudart.so.{major}" for major in (13, 12, 11)), "libcuda.so.1")

_state = "idle"  # then: waiting, on, over
_steps: Steps = (0, 0)
_report = ""
_pid = 0
_parent = 0
_lock = threads.new_lock()


def arm(steps: Steps, report: str) -> None:
    """`report` is the path at which nsys will write, `` where that is not known."""
    global _state, _steps, _report, _pid, _parent
    _state, _steps, _report = "waiting", steps, report
    _pid, _parent = os.getpid(), os.getppid()
    card.at_step = at_step


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
    _turn("on", "over")
    if _state == "over" and _report:
        why = _wait_for_report()
        if why:
            _say(f"no report: {why}")


def begin_now() -> str:
    """Without waiting for a step. Why that cannot be, or ``."""
    if os.getpid() != _pid or _state == "idle":
        return (
            "no nsys waits for it; next time: rankdbg run --nsys PATTERN --nsys-steps later -- ..."
        )
    if _state != "waiting":
        now = "captures it just now" if _state == "on" else "has captured it already"
        return f"nsys {now}, and does so once"
    why = _turn("waiting", "on")
    if not why:
        card.at_step = None  # which steps it is at does not matter any more
    return why


def end_now() -> tuple[str, str]:
    """The report, once it is whole; or why there is none."""
    why = _turn("on", "over")
    if not why and not _report:
        why = "where nsys writes its report is not known here: rankdbg collect looks for it"
    return _report, why or _wait_for_report()


def _turn(before: str, after: str) -> str:
    """Only one thread does, and only in the process that was armed. Why it has failed, or ``."""
    global _state
    with _lock:
        if _state != before or os.getpid() != _pid:
            return ""
        _state = after
    if after == "over":
        card.at_step = None
    why = _call("Start" if after == "on" else "Stop")
    if why:
        _say(f"no capture: {why}")
        _state, card.at_step = "idle", None
    return why


def _call(which: str) -> str:
    """cudaProfilerStart or cudaProfilerStop; why it could not be called, or ``."""
    torch: Any = sys.modules.get("torch")
    try:
        if torch is not None and torch.cuda.is_available():
            getattr(torch.cuda.cudart(), f"cudaProfiler{which}")()
            return ""
    except Exception:  # torch is being imported, or has no CUDA
        pass
    try:
        import ctypes
    except ImportError:
        return "this Python has no ctypes"
    for name in (*_loaded_libraries(), *_LIBRARIES):
        prefix = "cuProfiler" if "libcuda.so" in name else "cudaProfiler"
        try:
            status = getattr(ctypes.CDLL(name), f"{prefix}{which}")()
        except (OSError, AttributeError):
            continue
        return f"{prefix}{which} failed with CUDA's error {status}" if status else ""
    return "neither libcudart nor libcuda is here"


def _loaded_libraries() -> list[str]:
    """The CUDA runtime that the program has loaded comes before any other."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = {line.split(None, 5)[-1].strip() for line in file if "/libcudart" in line}
        return sorted(path for path in paths if path.startswith("/"))
    except OSError:
        return []


def _wait_for_report() -> str:
    """Until it is whole. Why it is not there, or ``."""
    deadline = monotonic() + wait_seconds()
    size, since = -1, monotonic()
    while monotonic() < deadline:
        now = _size(_report)
        if now != size:
            size, since = now, monotonic()
        elif size > 0 and monotonic() - since > REST_SECONDS:
            break
        if os.getppid() != _parent:  # nsys has ended, whatever it has written
            break
        if size <= 0 and _is_full(os.path.dirname(_report)):
            return f"the disk is full at {os.path.dirname(_report)}"
        sleep(0.02)
    if size > 0:
        return ""
    late = f"nsys has not written {_report} in {wait_seconds():g} s"
    return f"{late}; RANKDBG_NSYS_WAIT=SECONDS waits longer"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _is_full(directory: str) -> bool:
    try:
        there = os.statvfs(directory)
    except OSError:
        return False
    return there.f_bavail * there.f_frsize < LEAST_FREE


def wait_seconds() -> float:
    """For a report, at the end of a program."""
    text = os.environ.get("RANKDBG_NSYS_WAIT", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        return WAIT_SECONDS


def _say(line: str) -> None:
    try:
        sys.stderr.write(f"rankdbg: process {os.getpid()}: {line}\n")
    except Exception:  # closed, or None
        pass
