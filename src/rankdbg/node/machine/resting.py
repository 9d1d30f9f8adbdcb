"""For how long a thread has not run, by the kernel's own record of when it last did.

The kernel takes that moment from the clock of a processor's run queue, which leaves out interrupts and
what a hypervisor takes: the clocks of two processors can be seconds apart (measured: one second after
an hour). So the clock of the same processor is read, by a thread that moves there for a moment.
"""

from __future__ import annotations

import os
import time

from rankdbg.node.machine import processes

_PROCESSOR = 36  # field of /proc/PID/stat, counted from the state


class RestingTimes:
    """Of one look. Processors that this process may not use are left alone: they may be isolated."""

    def __init__(self) -> None:
        self._behind: dict[int, float | None] = {}  # by processor: its clock, against ours

    def seconds(self, pid: int) -> float | None:
        """Of the main thread of a process; None if the kernel does not tell."""
        try:
            fields = processes.fields_after_name(pid)
            last = _last_run(f"/proc/{pid}/task/{pid}/sched")
            if last is None or fields[0] == "R":
                return None
            behind = self._of_processor(int(fields[_PROCESSOR]))
        except (OSError, ValueError, IndexError):
            return None
        return None if behind is None else max(0.0, time.monotonic() - behind - last)

    def _of_processor(self, processor: int) -> float | None:
        if processor not in self._behind:
            self._behind[processor] = _measured(processor)
        return self._behind[processor]


def _measured(processor: int) -> float | None:
    allowed = os.sched_getaffinity(0)
    if processor not in allowed:
        return None
    os.sched_setaffinity(0, {processor})  # of this thread alone
    try:
        now = _last_run("/proc/thread-self/sched")
        return None if now is None else time.monotonic() - now
    finally:
        os.sched_setaffinity(0, allowed)


def _last_run(path: str) -> float | None:
    """In seconds of the processor's clock."""
    with open(path, "rb", buffering=0) as file:
        lines = file.read(400).splitlines()
    for line in lines:
        name, _, value = line.partition(b":")
        if name.strip() == b"se.exec_start":
            return float(value) / 1000
    return None
