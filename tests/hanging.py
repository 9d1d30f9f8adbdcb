"""Jobs of programs/hangs: started with the agent or without, and asked once they hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs import PROGRAMS, TORCHRUN, Job, meeting
from rankdbg.verdicts.hangs import STARTING_SECONDS
from waiting import wait_for

HANGS = PROGRAMS / "hangs"
PATIENCE = 120.0  # torch takes long to load on a machine that is busy
SETTLED = 2.0  # what has stood for less is hardly a hang
AHEAD = 2
LIFETIME = 900  # seconds: nobody is left where the tests themselves are killed


@dataclass(frozen=True)
class Start:
    """A program of programs/hangs, how many ranks it has, and what starts them."""

    program: str
    ranks: str = "3"  # or STARTED/WORLD
    agent: bool = True
    torchrun: bool = False
    at_once: bool = False  # to be asked as soon as its processes are there
    busy: bool = False  # takes a processor for as long as it runs: not started ahead

    def __str__(self) -> str:
        return f"{self.program}-{'agent' if self.agent else 'outside'}"

    @property
    def started(self) -> int:
        return int(self.ranks.partition("/")[0])

    @property
    def settled(self) -> float:
        """For how long it has to have stood. Who is missing may still come for a while."""
        return STARTING_SECONDS if "/" in self.ranks else SETTLED

    def command(self) -> list[str]:
        each = "fork_ranks.py" if self.agent else "launch.py"
        launcher = [sys.executable, str(PROGRAMS / each)]
        if self.torchrun:
            launcher = [str(word) for word in TORCHRUN]
        limit = ["timeout", "--signal=KILL", str(LIFETIME)]
        return [*limit, *launcher, self.ranks, str(HANGS / f"{self.program}.py")]


class HangingJob:
    """One of them, running. Each rank prints a line when all is still well."""

    def __init__(self, start: Start, scratch: Path) -> None:
        self.start = start
        scratch.mkdir()
        self.job = Job(f"{start}-{os.urandom(3).hex()}", scratch)
        self._log = scratch / "log"
        self._errors = scratch / "errors"
        with self._log.open("w") as log, self._errors.open("w") as errors:
            self._process = self.job.start(
                *start.command(),
                agent=start.agent,
                env=meeting(),
                stdin=subprocess.PIPE,  # at which nobody types
                stdout=log,
                stderr=errors,
            )

    def wait(self) -> None:
        """Until all ranks hang, and have done so for a while."""
        if self.start.at_once:
            self.job.wait_for(lambda ranks: len(ranks) == self.start.started)
            return
        wait_for(self._has_settled, self._what_is_wrong, PATIENCE)

    def _has_settled(self) -> bool:
        assert self._process.poll() is None, self._what_is_wrong()
        if self._log.read_text().count("\n") < self.start.started:
            return False
        return time.time() - self._log.stat().st_mtime > self.start.settled

    def _what_is_wrong(self) -> str:
        return f"{self._log.read_text()}\n{self._errors.read_text()}"

    def why(self, *options: str) -> Any:
        result = self.job.cli("why", "--json", *options)
        assert result.returncode in (0, 1), result.stderr
        return json.loads(result.stdout)

    def end(self) -> None:
        self.job.end()


class HangingJobs:
    """Starts those of the next tests while the present one looks at its own."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._running: dict[Start, HangingJob] = {}

    def take(self, start: Start, coming: list[Start]) -> HangingJob:
        for each in (start, *coming[:AHEAD]):
            if each not in self._running and (each is start or not each.busy):
                self._running[each] = HangingJob(each, self._scratch / str(each))
        return self._running[start]

    def end(self, start: Start) -> None:
        self._running.pop(start).end()

    def end_all(self) -> None:
        for start in list(self._running):
            self.end(start)
