"""While the shell is open, ranks that wait for a stopped one do not time out."""

from __future__ import annotations

import sys

from rankdbg.errors import RankdbgError
from rankdbg.frontends.reports.limits import LimitReport
from rankdbg.frontends.terminal import Terminal
from rankdbg.session import Session
from rankdbg.types import Rank


class Holding:
    """From when there is a job until the shell is left. A shell that is killed ends it too:
    the node does, and what it held runs out."""

    def __init__(self, session: Session, job: str | None) -> None:
        self._session = session
        self._job = job
        self._held: list[Rank] = []

    def begin(self) -> None:
        """Unless it has begun. What is wrong with the job, commands say better."""
        if self._held:
            return
        try:
            ranks = self._session.job(self._job)
            answers = self._session.hold_timeouts(ranks, ranks[0].job)
        except RankdbgError:
            return
        self._held = ranks
        LimitReport(answers, ranks).print(Terminal(sys.stderr))

    def end(self) -> None:
        if self._held:
            try:
                self._session.release_timeouts(self._held)
            except RankdbgError:  # the node has gone, and what it held with it
                pass
