"""Programs that stop a process (ptrace): when they may run, and how they end.

A process that hangs is fragile. Attaching to one in state D hangs the debugger, and if that is
killed the target stays stopped; attaching to one that is stopped or being debugged would disturb
that. So each process is checked first, and the debugger runs under attach_guard.py, which
survives this process if needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import NamedTuple

from rankdbg.node import programs
from rankdbg.node.machine import processes
from rankdbg.node.probes import ProbeFailed, attach_guard

# A process that reads from a disk is in state D for a moment; one that hangs stays in it.
LOOKS, BETWEEN_LOOKS = 4, 0.03
# What the guard needs to end a probe that hangs, and to see its target run again.
GUARD_SECONDS = attach_guard.TERM_SECONDS + attach_guard.SETTLE_SECONDS + 1.0


class CommandResult(NamedTuple):
    status: int
    output: str
    complaint: str


def refusal(pid: int) -> str | None:
    """Why no debugger may attach to this process, or None."""
    stat = processes.read_stat(pid)
    if stat is None:
        return f"process {pid} is gone"
    for look in range(LOOKS):
        reason = _unfit(stat)
        if reason is None or not reason.startswith(_IN_STATE_D):
            break
        if look < LOOKS - 1:
            time.sleep(BETWEEN_LOOKS)
    return reason


_IN_STATE_D = "process is in state D", "a thread is in state D"


def _unfit(stat: processes.Stat) -> str | None:
    for thread in _threads(stat.pid):
        seen = processes.read_stat(thread)  # each thread has its own /proc/TID
        if seen is None:
            continue
        tracer = processes.status_field(thread, "TracerPid")
        if seen.state in "ZX" and thread != stat.pid:
            continue
        if seen.state in "TtZX" or (seen.state == "D" and thread == stat.pid):
            return processes.explain_state(seen)
        if seen.state == "D":
            where = processes.waiting_in(thread)
            return f"a thread is in state D{f': {where}' if where else ''}"
        if tracer not in ("", "0"):
            debugger = processes.read_stat(int(tracer))
            named = f" ({debugger.name})" if debugger else ""
            return f"process {tracer}{named} is already debugging it"
    return None


def _threads(pid: int) -> list[int]:
    """The main thread first, since it tells most."""
    try:
        return sorted((int(name) for name in os.listdir(f"/proc/{pid}/task")), key=pid.__ne__)
    except OSError:
        return [pid]


def run(words: list[str], pid: int, seconds: float, untouched: float = 0.0) -> CommandResult:
    """A program that attaches to this process, to its end. Raises ProbeFailed if it does not
    come to one in time; then too the process runs on. For its first `untouched` seconds it is
    not ended in any case, and if need be left behind."""
    name = os.path.basename(words[0])
    stat = processes.read_stat(pid)
    if stat is None:
        raise ProbeFailed(f"process {pid} is gone")
    ours, theirs = os.pipe()[::-1]  # the guard's stdin, which ends when we do
    # No pipes: what the probe writes when we are gone must not end it either.
    output, complaint = os.memfd_create("output"), os.memfd_create("complaint")
    try:
        guard = subprocess.Popen(
            [*GUARD, str(pid), str(stat.start), f"{seconds:.3f}", f"{untouched:.3f}", *words],
            stdin=theirs,
            stdout=output,
            stderr=complaint,
            # pystack is a Python, which is to have no agent; and nothing is downloaded.
            env={**os.environ, "RANKDBG": "0", "DEBUGINFOD_URLS": ""},
            start_new_session=True,  # a ^C is for us, who end it in order
        )
        guard.wait(timeout=seconds if seconds < untouched else seconds + GUARD_SECONDS + 1.0)
        ran = CommandResult(guard.returncode, _text(output), _text(complaint))
    except subprocess.TimeoutExpired:
        why = f"hangs in the kernel with process {pid}"
        if seconds < untouched:
            why = f"did not end within {seconds:.1f} s; it must not be killed and keeps running"
        raise ProbeFailed(f"{name} {why}") from None
    finally:
        for file in (ours, theirs, output, complaint):
            os.close(file)
    if guard.returncode == attach_guard.LATE:
        raise ProbeFailed(f"{name} did not end within {seconds:.1f} s")
    if guard.returncode == attach_guard.HANDS_OFF:
        raise ProbeFailed(refusal(pid) or f"process {pid} was stopped a moment ago")
    return ran


def _text(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


GUARD = (sys.executable, "-I", "-S", programs.path_of(attach_guard))
