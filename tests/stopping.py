"""Jobs that stop at breakpoints, and what their users type."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from jobs import PATIENCE, PROGRAMS, Job


class Stops:
    """A job of programs/stops.py, and what its users type."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def start(self, *behaviours: str, **settings: Any) -> Any:
        launcher, program = PROGRAMS / "launch.py", PROGRAMS / "stops.py"
        words = (sys.executable, launcher, len(behaviours), program, *behaviours)
        return self.job.start(*words, **settings)

    def wait(self, wanted: Callable[[list[Any]], bool] | int) -> list[Any]:
        """The stops, as soon as they are as wanted, or as many."""
        deadline = time.monotonic() + PATIENCE
        stops: list[Any] = []
        while time.monotonic() < deadline:
            result = self.job.cli("list", "--json", "--all")
            stops = json.loads(result.stdout)["stops"] if result.returncode == 0 else []
            if len(stops) == wanted if isinstance(wanted, int) else wanted(stops):
                return stops
        raise AssertionError(f"never as wanted; last: {stops}")

    def cast(self, ranks: str, command: str, *options: object) -> Any:
        result = self.job.cli("cast", "--json", *options, ranks, command)
        assert result.returncode in (0, 1), result.stderr
        return json.loads(result.stdout)

    def output(self, ranks: str, command: str) -> str:
        (group,) = self.cast(ranks, command)["groups"]
        return group["output"]
