"""node/machine/starvation: a process that is ready and gets no CPU, and those that only look like it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rankdbg.node.machine.starvation import Starvation
from starving import another_at_work, only_when_idle
from waiting import wait_for

COMPUTES = "print(flush=True)\nwhile True: pass"
SLEEPS = "import time; print(flush=True); time.sleep(3600)"


@contextmanager
def running(code: str) -> Iterator[int]:
    """A process that has started, for which it needs a CPU."""
    words = [sys.executable, "-S", "-c", code]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def looks(pid: int) -> Iterator[bool]:
    """Whether it was starved in the last tenth of a second, over and over."""
    starvation = Starvation()
    starvation.is_starved(pid)
    while True:
        time.sleep(0.1)
        yield starvation.is_starved(pid)


def test_starved() -> None:
    with another_at_work() as cpu, running(COMPUTES) as starved:
        only_when_idle(starved, cpu)
        seen = looks(starved)
        wait_for(lambda: next(seen))


def test_asleep() -> None:
    """Beside the same load: it does not want a CPU."""
    with another_at_work() as cpu, running(SLEEPS) as asleep:
        only_when_idle(asleep, cpu)
        seen = looks(asleep)
        wait_for(lambda: not any(next(seen) for _ in range(5)))  # it has come to rest


def test_computes() -> None:
    """One that shares its CPU waits for half of the time, and runs."""
    with another_at_work() as cpu, running(COMPUTES) as computes:
        os.sched_setaffinity(computes, {cpu})
        seen = looks(computes)
        wait_for(lambda: not next(seen))


def test_gone() -> None:
    starvation = Starvation()
    assert not starvation.is_starved(2**22 + 1)
    assert not starvation.is_starved(2**22 + 1)
