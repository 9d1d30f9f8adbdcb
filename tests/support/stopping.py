"""Jobs that stop at breakpoints, and what their users type."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from jobs import PROGRAMS, Job
from waiting import PATIENCE, wait_for


class Stops:
    """A job of programs/stops.py, and what its users type."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def start(self, *behaviours: str, **settings: Any) -> Any:
        launcher, program = PROGRAMS / "launch.py", PROGRAMS / "stops.py"
        words = (sys.executable, launcher, len(behaviours), program, *behaviours)
        return self.job.start(*words, **settings)

    def wait(
        self, wanted: Callable[[list[Any]], bool] | int, patience: float = PATIENCE
    ) -> list[Any]:
        """The stops, as soon as they are as wanted, or as many that wait for a command."""
        stops: list[Any] = []

        def arrived() -> bool:
            result = self.job.cli("list", "--json", "--all")
            stops[:] = json.loads(result.stdout)["stops"] if result.returncode == 0 else []
            if isinstance(wanted, int):
                return [stop["state"] for stop in stops] == ["stopped"] * wanted
            return wanted(stops)

        wait_for(arrived, lambda: f"stops as wanted; last: {stops}\n{self._state()}", patience)
        return stops

    def _state(self) -> str:
        """For the message of a failure: what the job does instead."""
        return "\n".join(self.job.cli(verb, "all").stdout for verb in ("ps", "stacks"))

    def cast(self, ranks: str, command: str, *options: object) -> Any:
        result = self.job.cli("cast", "--json", *options, ranks, command)
        assert result.returncode in (0, 1), result.stderr
        return json.loads(result.stdout)

    def output(self, ranks: str, command: str) -> str:
        (group,) = self.cast(ranks, command)["groups"]
        return group["output"]
