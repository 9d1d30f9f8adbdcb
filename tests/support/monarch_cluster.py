"""Real jobs of Monarch on this machine: a client and its procs, ended by their ids."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobs import PROGRAMS, Job
from rankdbg.errors import RankdbgError
from rankdbg.types import Answer, Rank, Silence
from waiting import wait_for

PROGRAM = PROGRAMS / "monarch_job.py"


def missing() -> str:
    """What this Python lacks for it, or ``."""
    if importlib.util.find_spec("monarch"):
        return ""
    if sys.version_info >= (3, 14) or sys.platform != "linux":
        return "there is no torchmonarch for this Python or system"  # tests/install
    return "needs torchmonarch"


def line_of(text: str) -> int:
    """The number of the first line of the program that is this, blanks aside."""
    return [line.strip() for line in PROGRAM.read_text().splitlines()].index(text) + 1


class MonarchJob(Job):
    """A client with four procs, and rankdbg with the target `monarch`."""

    def __init__(self, what: str, scratch: Path, *options: str) -> None:
        super().__init__(f"monarch-{what}-{os.urandom(3).hex()}", scratch)
        self.client = self.start(sys.executable, PROGRAM, what, options=options)

    def cli(self, verb: str, *words: object, **settings: Any) -> Any:
        return super().cli(verb, "-t", "monarch", *words, **settings)

    def until(self, wanted: Callable[[list[Rank]], bool]) -> list[Rank]:
        """The four ranks by number, as soon as they are as wanted."""
        ranks = self.wait_for(lambda ranks: len(ranks) == 4 and wanted(ranks))
        return sorted(ranks, key=lambda rank: (rank.number or 0, rank.pid))

    def until_in(self, function: str) -> list[Rank]:
        return self.until(
            lambda ranks: all(r.where and r.where.function == function for r in ranks)
        )

    def stops(self) -> list[dict[str, Any]] | None:
        """Those of all ranks, each with its rank's number and pid; None: not all have said."""
        try:
            with self.session() as session:
                ranks = session.roster().jobs().get(self.name, [])
                living = [rank for rank in ranks if rank.state not in ("gone", "zombie")]
                answers = session.stops(living)
        except RankdbgError:
            return None
        if not answers or any(isinstance(answer, Silence) for answer in answers):
            return None
        return [
            {**vars(stop), "rank": answer.rank.number, "pid": answer.rank.pid}
            for answer in answers
            if isinstance(answer, Answer)
            for stop in answer.value.stops
            if stop.state == "stopped"
        ]

    def until_stops(self, count: int) -> list[dict[str, Any]]:
        stops: list[dict[str, Any]] | None = None

        def arrived() -> bool:
            nonlocal stops
            stops = self.stops()
            return stops is not None and len(stops) == count

        wait_for(arrived, lambda: f"{count} stops; last: {stops}")
        return stops or []

    def ended(self) -> bool:
        return self.client.poll() is not None
