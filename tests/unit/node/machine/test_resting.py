"""For how long a process has not run, as the kernel has it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankdbg.node.machine import processes
from rankdbg.node.machine.resting import RestingTimes
from waiting import wait_for

pytestmark = pytest.mark.skipif(
    not Path("/proc/thread-self/sched").exists(), reason="this kernel does not tell"
)
SLEEPS = "import sys, time; print(flush=True); time.sleep(600)"


def test_one_that_sleeps() -> None:
    """As long as it has slept, whichever processor it was on, by that processor's clock."""
    command = [sys.executable, "-c", SLEEPS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as sleeper:
        try:
            assert sleeper.stdout is not None
            sleeper.stdout.readline()
            printed = time.monotonic()
            wait_for(lambda: "nanosleep" in processes.waiting_in(sleeper.pid))
            first = RestingTimes().seconds(sleeper.pid)
            time.sleep(1.5)  # which is what is measured
            slept = RestingTimes().seconds(sleeper.pid)
            assert first is not None and slept is not None
            assert first + 1.4 <= slept <= time.monotonic() - printed + 0.1
        finally:
            sleeper.kill()


def test_one_that_runs_and_one_that_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        ended.wait()
    assert RestingTimes().seconds(os.getpid()) is None
    assert RestingTimes().seconds(ended.pid) is None


def test_the_thread_may_run_where_it_could_before() -> None:
    before = os.sched_getaffinity(0)
    RestingTimes().seconds(1)
    assert os.sched_getaffinity(0) == before
