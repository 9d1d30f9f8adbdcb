"""Threads on a processor that others take: which of them compute."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jobs import PROGRAMS
from rankdbg.node.machine import processes, vitals
from rankdbg.node.machine.interruptions import Interruptions
from rankdbg.verdicts.hangs import progress
from rankdbg.wire import answers
from rankdbg.wire.decoding import decode
from starving import without_processor
from waiting import wait_for

HOGS = 6
COMPUTES = "import os; os.sched_setaffinity(0, {%d})\nwhile True: pass"


@pytest.fixture
def busy_cpu() -> Iterator[int]:
    """One of this machine's processors, which several processes want."""
    cpu = min(os.sched_getaffinity(0))
    with contextlib.ExitStack() as ended:
        for _ in range(HOGS):
            hog = subprocess.Popen([sys.executable, "-S", "-c", COMPUTES % cpu])
            ended.callback(hog.wait)
            ended.callback(hog.kill)
        yield cpu


@contextlib.contextmanager
def threads_on(cpu: int, kind: str) -> Iterator[processes.Stat]:
    words = [sys.executable, str(PROGRAMS / "idle_threads.py"), str(cpu), kind]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        stat = processes.read_stat(process.pid)
        assert stat is not None
        yield stat
        process.kill()


def two_looks(stat: processes.Stat) -> tuple[answers.Vitals, answers.Vitals]:
    """So far apart that its threads waited for the processor for a while in between."""
    interruptions, key = Interruptions(), (stat.pid, stat.start)

    def look() -> answers.Vitals:
        return decode(answers.Vitals, vitals.look([key], interruptions)[key])

    before, ready = look(), ready_seconds(stat.pid)
    wait_for(lambda: ready_seconds(stat.pid) - ready > 1.0, "threads that are ready to run")
    return before, look()


def ready_seconds(pid: int) -> float:
    """Of all its threads, as the kernel counts them."""
    threads = processes.threads(pid)
    return sum(processes.read_thread(pid, thread).ready_seconds for thread in threads)


@pytest.mark.slow
def test_threads_that_wake_up_on_a_busy_processor(busy_cpu: int) -> None:
    """They wait for the processor together for long, and compute nothing."""
    with threads_on(busy_cpu, "idle") as stat:
        before, after = two_looks(stat)
    assert not progress.others_compute(before, after), (before, after)


def test_thread_that_computes_on_a_busy_processor(busy_cpu: int) -> None:
    """The twin: it gets little of the processor, and would take all of it."""
    with threads_on(busy_cpu, "computes") as stat:
        before, after = two_looks(stat)
    assert progress.others_compute(before, after), (before, after)


def test_threads_without_a_processor(busy_cpu: int) -> None:
    """They are starved; those that get their turn beside others are not, nor are those that sleep."""
    with threads_on(busy_cpu, "computes") as computes, threads_on(busy_cpu, "idle") as idle:
        interruptions = Interruptions()

        def starved(stat: processes.Stat) -> tuple[bool, bool]:
            look = vitals.look([(stat.pid, stat.start)], interruptions)[stat.pid, stat.start]
            return look["starved"] > 0, look["others_starved"] > 0

        with without_processor() as group:
            for thread in processes.threads(computes.pid):
                if thread != computes.pid:
                    group.add(thread)
            wait_for(lambda: (starved(computes), starved(idle)) == ((False, True), (False, False)))
        wait_for(lambda: starved(computes) == (False, False))
