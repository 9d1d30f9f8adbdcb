"""The loop beside a job: look, and where it stands for too long, find out why."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rankdbg.errors import NoJob, RankdbgError
from rankdbg.frontends.terminal import duration
from rankdbg.frontends.watch.collecting import Collection, collect
from rankdbg.frontends.watch.settings import Settings
from rankdbg.frontends.watch.stillness import Stillness
from rankdbg.frontends.watch.telling import tell
from rankdbg.session import Session
from rankdbg.types import Rank
from rankdbg.verdicts.hang_rules import load_hang_rules

# A job that cannot be found for so long is worth a word.
LATE_SECONDS = 60.0


class Watcher:
    def __init__(
        self,
        session: Session,
        settings: Settings,
        say: Callable[[str], None],
        job: str | None = None,
    ) -> None:
        self._session = session
        self._settings = settings
        self._say = say
        self._job = job
        self._rules = load_hang_rules(settings.rules)
        self._stillness = Stillness()
        self._started = time.monotonic()
        self._times = [self._started + wait for wait in settings.wait_seconds]
        self._next = self._started + (settings.every or float("inf"))  # of those that repeat
        self._hung = False
        self._complained = False
        self.found = True  # whether there were ranks of it at the last look

    def run(self, wait: Callable[[float], bool]) -> bool:
        """Until wait(seconds) says that it is over. True if the job hangs and is to end."""
        while True:
            if self._look() and self._settings.abort:
                return True
            due = min([*self._times, self._next]) - time.monotonic()
            if wait(max(0.0, min(self._settings.look_every, due))):
                return False

    def _look(self) -> bool:
        """One look, and what follows from it. True if the job hangs."""
        now = time.monotonic()
        self._session.forget()
        try:
            ranks = self._session.job(self._job)
            self.found = any(rank.state not in ("gone", "zombie") for rank in ranks)
        except RankdbgError as error:
            # It has not begun yet, or its nodes do not answer: look again.
            self.found = not isinstance(error, NoJob)
            if not self._complained and now - self._started > LATE_SECONDS:
                self._complained = True
                self._say(error.in_one_line())
            return False
        try:
            if self._is_time(now):
                after = duration(now - self._started)
                self._collect(ranks, f"collected after {after}, as asked for")
            if not self._settings.hang_after:
                return False
            self._stillness.look(self._session, ranks, now)
            return self._judge(ranks, now)
        except RankdbgError as error:
            self._say(error.in_one_line())
            return False

    def _is_time(self, now: float) -> bool:
        due = min([*self._times, self._next]) <= now
        self._times = [moment for moment in self._times if moment > now]
        while self._next <= now:
            self._next += self._settings.every
        return due

    def _judge(self, ranks: Sequence[Rank], now: float) -> bool:
        still = self._stillness.still_for(now)
        if self._hung:
            if still < self._settings.hang_after / 2:
                self._hung = False
                self._say("the job has come on again")
            return False
        if still < self._settings.hang_after:
            return False
        why = f"no progress for {duration(still)}"
        collection = self._collect(ranks, why, only_if_stuck=True)
        if collection is None:
            self._stillness.forget(now)
            return False
        self._hung = True
        tell(self._settings, collection.summary, self._say)
        return True

    def _collect(
        self, ranks: Sequence[Rank], why: str, only_if_stuck: bool = False
    ) -> Collection | None:
        collection = collect(
            self._session,
            ranks,
            self._rules,
            self._settings.directory,
            why,
            self._settings.cuda,
            only_if_stuck=only_if_stuck,
        )
        if collection is None:
            self._say(f"{why}, but it is not stuck")
            return None
        summary = collection.summary
        guilty = f", guilty: {summary['guilty']} ({summary['cause']})" if summary["guilty"] else ""
        says = summary["says"].rstrip(".")
        self._say(f"{why}: {says}{guilty}; {collection.directory / 'report.txt'}")
        if collection.failure:
            self._say(f"not all of it could be kept: {collection.failure}")
        return collection
