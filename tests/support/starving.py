"""Processes that get no CPU, though they are ready to run."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from waiting import wait_for

COMPUTES = "while True: pass"
_GROUPS = Path("/sys/fs/cgroup/cpu")  # of version 1, which takes single threads
_HOGS = 4  # each uses what the group gets for seconds ahead


def _start_computing() -> subprocess.Popen[bytes]:
    """It uses a CPU, and ends with this process, whatever ends that."""
    prctl = ctypes.CDLL(None).prctl

    def end_with_parent() -> None:
        prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

    return subprocess.Popen([sys.executable, "-S", "-c", COMPUTES], preexec_fn=end_with_parent)


@contextmanager
def another_at_work() -> Iterator[int]:
    """A CPU that another process uses all the time."""
    cpu = max(os.sched_getaffinity(0))
    other = _start_computing()
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


class WithoutProcessor:
    """A control group in which others use all the little time that it gets: nothing else in it runs, for
    some eight seconds at a time."""

    def __init__(self, group: Path) -> None:
        self._group = group

    def add(self, thread: int) -> None:
        """Of a process its main thread; others stay where they are."""
        (self._group / "tasks").write_text(str(thread))

    def add_process(self, pid: int) -> None:
        (self._group / "cgroup.procs").write_text(str(pid))


@contextmanager
def without_processor() -> Iterator[WithoutProcessor]:
    group = _GROUPS / f"rankdbg-test-{os.urandom(4).hex()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("1000000")
        (group / "cpu.cfs_quota_us").write_text("1000")
    except OSError as error:
        pytest.skip(f"needs control groups of processors, version 1: {error}")
    made = WithoutProcessor(group)
    with ExitStack() as ended:
        ended.callback(_remove, group)
        for _ in range(_HOGS):
            hog = _start_computing()
            ended.callback(hog.wait)
            ended.callback(hog.kill)
            made.add(hog.pid)
        ended.callback((group / "cpu.cfs_quota_us").write_text, "-1")  # also to end takes some
        yield made


def _remove(group: Path) -> None:
    """What is still in it runs on, outside."""

    def is_empty() -> bool:
        for thread in (group / "tasks").read_text().split():
            (_GROUPS / "tasks").write_text(thread)
        return not (group / "tasks").read_text()

    wait_for(is_empty, "an empty control group")
    group.rmdir()
