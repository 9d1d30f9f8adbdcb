"""While the shell is open, ranks that wait for a stopped one do not time out."""

from __future__ import annotations

import sys

from rankdbg.errors import RankdbgError
from rankdbg.frontends.reports.stops import print_limits
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.stops.stopped_ranks import OperationLimits
from rankdbg.session import Session
from rankdbg.types import Rank


class ShellHold:
    """From when there is a job until the shell is left. A shell that is killed ends it too:
    the node does, and what it held runs out."""

    def __init__(self, session: Session, job: str | None) -> None:
        self._session = session
        self._job = job
        self._held: list[Rank] = []

    def begin(self) -> None:
        """Unless it has begun. Errors are left to the commands to report."""
        if self._held:
            return
        try:
            ranks = self._session.job(self._job)
            answers = self._session.hold_timeouts(ranks, ranks[0].job)
        except RankdbgError:
            return
        self._held = ranks
        print_limits(Terminal(sys.stderr), OperationLimits(answers, ranks))

    def end(self) -> None:
        if self._held:
            try:
                self._session.release_timeouts(self._held)
            except RankdbgError:  # the node process has ended, and the hold with it
                pass
