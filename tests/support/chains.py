"""Jobs whose ranks wait for something that another one owes, and what `why` says about them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from jobs import PROGRAMS, Job
from waiting import wait_for

with_and_without = pytest.mark.parametrize("agent", [True, False], ids=["agent", "outside"])


def start(job: Job, ranks: int, program: str, *words: object, agent: bool) -> None:
    """Until each rank has said that it is ready."""
    launcher = PROGRAMS / "launch.py"
    process = job.start(sys.executable, launcher, ranks, PROGRAMS / program, *words, agent=agent)
    ready = [process.stdout.readline() for _ in range(ranks)]
    assert all(line for line in ready), process.stderr.read()
    threading.Thread(target=process.stdout.read, daemon=True).start()


def why(job: Job) -> Any:
    result = job.cli("why", "--json", "--longest", "20")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def verdict_when(job: Job, until: Callable[[Any], bool]) -> Any:
    """A rank that has said that it is ready may need a while to get to its line."""
    seen: list[Any] = []

    def as_expected() -> bool:
        seen[:] = [why(job)]
        return until(seen[0])

    wait_for(as_expected, lambda: seen)
    return seen[0]
