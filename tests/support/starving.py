"""Processes that get no CPU, though they are ready to run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

COMPUTES = "while True: pass"


@contextmanager
def another_at_work() -> Iterator[int]:
    """A CPU that another process uses all the time."""
    cpu = max(os.sched_getaffinity(0))
    other = subprocess.Popen([sys.executable, "-S", "-c", COMPUTES])
    try:
        os.sched_setaffinity(other.pid, {cpu})
        yield cpu
    finally:
        other.kill()
        other.wait()


def only_when_idle(pid: int, cpu: int) -> None:
    """Each thread of a process runs on this CPU, and only while nothing else wants to."""
    for name in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(name), {cpu})
        os.sched_setscheduler(int(name), os.SCHED_IDLE, os.sched_param(0))
