"""node/inquiry: an agent that does not answer, because its process gets no CPU or for another reason."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rankdbg.node import inquiry
from rankdbg.node.machine import processes
from rankdbg.node.relay import NoAnswer
from rankdbg.node.roster.found_processes import Process
from rankdbg.wire.questions import Ping
from starving import another_at_work, only_when_idle
from waiting import wait_for

# It listens as an agent does, and never answers.
LISTENS = """
import os, socket, time
with socket.socket(socket.AF_UNIX) as own:
    own.bind(f"{os.getpid()}.sock")
    own.listen()
    print("listens", flush=True)
    while True:
        """


@contextmanager
def silent_agent(folder: Path, rest: str) -> Iterator[Process]:
    words = [sys.executable, "-S", "-c", LISTENS + rest]
    started = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE)
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == b"listens\n"
        stat = processes.read_stat(started.pid)
        assert stat is not None
        path = str(folder / f"{started.pid}.sock")
        yield Process(started.pid, stat.start, stat.ppid, True, {}, [], socket=path)
    finally:
        started.kill()
        started.communicate()


def ask(process: Process) -> str:
    """Why there is no answer within a second."""
    message = {process.key: Ping().message()}
    answer = inquiry.ask({process.key: process}, message, time.monotonic() + 2.0, 0.3)
    outcome = answer[process.key]
    assert isinstance(outcome, NoAnswer)
    return inquiry.why_silent(process, outcome, 1.0)


def test_without_cpu(tmp_path: Path) -> None:
    with silent_agent(tmp_path, "pass") as agent, another_at_work() as cpu:
        only_when_idle(agent.pid, cpu)
        expected = "it got no CPU to answer within 1.0 s: its node or container is short of CPU"
        wait_for(lambda: ask(agent) == expected)


def test_asleep(tmp_path: Path) -> None:
    """Beside the same load; for all that is known here it keeps the GIL."""
    with silent_agent(tmp_path, "time.sleep(3600)") as agent, another_at_work() as cpu:
        only_when_idle(agent.pid, cpu)
        wait_for(lambda: ask(agent).endswith("1.0 s: the process holds the GIL"))


@pytest.mark.parametrize("seconds", [0.01, 0.1])
def test_little_time(tmp_path: Path, seconds: float) -> None:
    with silent_agent(tmp_path, "time.sleep(3600)") as agent:
        message = {agent.key: Ping().message()}
        answer = inquiry.ask({agent.key: agent}, message, time.monotonic() + seconds)
        assert answer == {agent.key: NoAnswer("late")}
