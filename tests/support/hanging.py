"""Jobs of programs/hangs: started with the agent or without, and asked once they hang."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, TORCHRUN, Job, meeting
from rankdbg.verdicts.hangs.judgement import STARTING_SECONDS
from torch_ranks import fork_ranks
from waiting import wait_for

HANGS = PROGRAMS / "hangs"
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
    loads_torch: bool = False  # itself, also where a process that has it could be forked
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        first = "".join(f"-{word}" for word in self.arguments[:1])
        return f"{self.program}{first}-{'agent' if self.agent else 'outside'}"

    @property
    def started(self) -> int:
        return int(self.ranks.partition("/")[0])

    @property
    def settled(self) -> float:
        """For how long it has to have stood. Ranks that are missing, or have yet to find the master,
        may still join for a while."""
        starts = "/" in self.ranks or self.program == "master_unreachable"
        return STARTING_SECONDS if starts else SETTLED

    def command(self) -> list[str]:
        words = [self.ranks, str(HANGS / f"{self.program}.py"), *self.arguments]
        limit = ["timeout", "--signal=KILL", str(LIFETIME)]
        if self.torchrun:
            return [*limit, *map(str, TORCHRUN), *words]
        if self.agent and not self.loads_torch:
            return [*limit, *fork_ranks(*words)]
        launcher = "fork_ranks.py" if self.agent else "launch.py"
        return [*limit, sys.executable, str(PROGRAMS / launcher), *words]


class HangingJob:
    """One of them, running. Each rank prints a line when all is still well."""

    def __init__(self, start: Start, scratch: Path) -> None:
        self.start = start
        scratch.mkdir()
        self.job = Job(f"{start}-{os.urandom(3).hex()}", scratch)
        self.log = scratch / "log"
        self._errors = scratch / "errors"
        with self.log.open("w") as log, self._errors.open("w") as errors:
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
        wait_for(self._has_settled, self._what_is_wrong)

    def _has_settled(self) -> bool:
        assert self._process.poll() is None, self._what_is_wrong()
        if self.log.read_text().count("\n") < self.start.started:
            return False
        return time.time() - self.log.stat().st_mtime > self.start.settled

    def _what_is_wrong(self) -> str:
        return f"{self.log.read_text()}\n{self._errors.read_text()}"

    def why(self, *options: str) -> Any:
        result = self.job.cli("why", "--json", *options)
        assert result.returncode in (0, 1), result.stderr
        return json.loads(result.stdout)

    def end(self) -> None:
        self.job.end()


def parameters_after(test: pytest.Item, name: str) -> list[Any]:
    """What the tests that follow in the same file have as this parameter."""
    items = test.session.items
    following = [item for item in items[items.index(test) + 1 :] if item.path == test.path]
    found = [item.callspec.params.get(name) for item in following if hasattr(item, "callspec")]
    return [value for value in found if value is not None]


class HangingJobs:
    """Starts those of the next tests while the present one looks at its own."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._running: dict[Start, HangingJob] = {}
        self._numbers = itertools.count()

    def take(self, start: Start, coming: list[Start]) -> HangingJob:
        for each in [*dict.fromkeys((start, *coming))][: 1 + AHEAD]:
            if each not in self._running and (each is start or not each.busy):
                # Numbered: the same start may be asked for again later.
                place = self._scratch / f"{next(self._numbers)}-{each}"
                self._running[each] = HangingJob(each, place)
        return self._running[start]

    def end(self, start: Start) -> None:
        self._running.pop(start).end()

    def end_all(self) -> None:
        for start in list(self._running):
            self.end(start)
