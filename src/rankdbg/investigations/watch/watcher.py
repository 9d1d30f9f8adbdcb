"""The watch loop: poll the job, and if it makes no progress for too long, find the cause."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rankdbg.errors import NoJob, RankdbgError
from rankdbg.investigations.watch.collections import (
    Collection,
    Folders,
    JudgedJob,
    Reports,
    UnderWay,
    collect,
    collect_quickly,
    look_at,
)
from rankdbg.investigations.watch.notifying import tell
from rankdbg.investigations.watch.reconnecting import Reaching, WatchFailures
from rankdbg.investigations.watch.stillness import Stillness
from rankdbg.investigations.watch.watch_settings import WatchSettings
from rankdbg.session import Session
from rankdbg.text.amounts import duration
from rankdbg.types import Rank
from rankdbg.verdicts.hangs.hang_rules import HangRule, load_hang_rules

# Report a job that cannot be found for this long.
LATE_SECONDS = 60.0
# Between two attempts where watching fails.
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# Time without log output before the watch began counts as a standstill, but not entirely: a
# program may log rarely. The watch itself must observe this many seconds.
CONFIRM_SECONDS = 30.0


class Watcher:
    """`job`: its name; `reports`: verdicts for people; `started`: when it began
    (time.monotonic()), for fixed times; `runs_already`: it ran before the watch, which ends with
    it; `joins_late`: it may hang already."""

    def __init__(
        self,
        reaching: Reaching,
        settings: WatchSettings,
        say: Callable[[str], None],
        job: str,
        reports: Reports,
        *,
        started: float | None = None,
        runs_already: bool = False,
        joins_late: bool = False,
    ) -> None:
        self._reaching = reaching
        self._settings = settings
        self._say = say
        self._job = job
        self._runs_already = runs_already
        self._rules = _rules(settings, say)
        self._stillness = Stillness()
        self._folders = Folders(settings.directory, reports)
        self.collecting = UnderWay()
        self._troubles = WatchFailures(say)
        self._pause = SHORTEST_PAUSE
        self._not_before = 0.0  # of the next attempt
        self._started = time.monotonic() if started is None else started
        self._times = [self._started + wait for wait in settings.wait_seconds]
        self._next = self._started + (settings.every or float("inf"))  # of those that repeat
        self._time_limit = TimeLimit(settings.before_end, own=not runs_already)
        self._ranks: Sequence[Rank] = ()  # at the last poll
        self._seen = joins_late  # otherwise said by the watch before this one
        self._has_looked = threading.Event()
        self._judged_at_first = not (runs_already or joins_late)
        self._hung = False
        self._complained = False
        self.ended = ""  # the reason, if it is certain that the job has ended

    def skip_what_was_due(self) -> None:
        """A previous watch process has already collected at these times."""
        now = time.monotonic()
        self._times = [moment for moment in self._times if moment > now]
        self._is_time(now)

    def run(self, wait: Callable[[float], bool]) -> bool:
        """Until wait(seconds) returns True, or a job that ran before the watch has ended. True if
        the job hangs and is to be terminated. Raises nothing."""
        while True:
            if self._look() and self._settings.abort:
                return True
            if self.ended and self._runs_already:
                return False
            now = time.monotonic()
            due = min([*self._times, self._next, self._time_limit.collect_at, now + 1e6])
            pause = max(self._not_before, min(now + self._settings.look_every, due)) - now
            if wait(max(0.0, pause)):
                return False

    def _look(self) -> bool:
        """Poll once and act on it. True if the job hangs."""
        now = time.monotonic()
        if now < self._not_before:
            return False
        try:
            session = self._reaching.session()
            hangs = self._look_at_job(session, now)
        except NoJob as error:
            self._note_absence(error, now)
            return False
        except Exception as error:
            self._retry_later(error)
            return False
        finally:
            self._has_looked.set()
        self._pause = SHORTEST_PAUSE
        self._troubles.over()
        return hangs

    def _retry_later(self, error: Exception) -> None:
        """With a new session: what is known about the nodes may be outdated."""
        if self._has_ended():
            return
        self._troubles.note(error)
        self._reaching.close()
        self._not_before = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _note_absence(self, error: NoJob, now: float) -> None:
        """The job has not begun yet, or has ended."""
        self._ranks = ()
        session = self._reaching.opened
        if session is None:  # the scheduler does not show it, or has not started it yet
            self._retry_later(error)
        elif self._has_ended(session) or self._complained:
            pass
        elif now - self._started > LATE_SECONDS:
            self._complained = True
            self._say(error.in_one_line())

    def _has_ended(self, session: Session | None = None) -> bool:
        """Only if that is certain: a scheduler that does not respond proves nothing. The end of a
        command started by rankdbg is seen directly."""
        if not self._runs_already:
            return False
        cluster = self._reaching.cluster
        reason = cluster.why_ended() if cluster is not None else None
        if reason is not None:
            self.ended = reason
        elif session is not None and not session.silent_nodes:
            self.ended = f"job {self._job} has ended"
        return bool(self.ended)

    def _look_at_job(self, session: Session, now: float) -> bool:
        session.forget()
        # A scheduler's target is one job, whatever the command's own name for it is.
        self._job = session.cluster.job_name or self._job
        ranks = session.job(self._job)
        if not any(map(_is_alive, ranks)):
            raise NoJob(f"all processes of {self._job} have ended")
        self._ranks = ranks
        self._say_first_sight()
        if self._is_time(now):
            after = duration(now - self._started)
            self._collect(session, ranks, f"collected after {after}, as asked for")
        if left := self._time_limit.seconds_left(session):
            self._collect(session, ranks, f"{duration(left)} before the time limit")
        if not self._settings.hang_after:
            return False
        self._stillness.look(session, ranks, now)
        if not self._judged_at_first:
            self._judged_at_first = True
            return self._judge_at_first(session, ranks, now)
        return self._judge(session, ranks, now)

    def _say_first_sight(self) -> None:
        """Once: from now on a silent watch means a job that makes progress."""
        if not self._seen:
            self._seen = True
            self._say(f"watching job {self._job}; reports go to {self._settings.directory}")

    def _is_time(self, now: float) -> bool:
        due = min([*self._times, self._next]) <= now
        self._times = [moment for moment in self._times if moment > now]
        while self._next <= now:
            self._next += self._settings.every
        return due

    # --- does it hang? ----------------------------------------------------------------------

    def _judge_at_first(self, session: Session, ranks: Sequence[Rank], now: float) -> bool:
        """A job that hung before the watch began: decided by the evidence of one look."""
        judged = look_at(session, ranks, self._rules)
        if not judged.stuck:
            return False
        waited = judged.found.verdict.waited or 0.0
        if waited >= self._settings.hang_after:
            self._stillness.assume_still(now, waited)
            return self._note_hang(session, judged, "the job was stuck when watching began")
        silent = _silence_of_logs(session, self._job)
        credit = waited
        if silent >= self._settings.hang_after:
            credit = max(waited, self._settings.hang_after - CONFIRM_SECONDS)
        self._stillness.assume_still(now, credit)
        left = duration(self._settings.hang_after - credit)
        logs = f"no log output for {duration(silent)}; " if silent > waited else ""
        says = _in_short(judged.found.as_json())
        self._say(f"{says}; {logs}reported as a hang in {left} unless a rank makes progress")
        return False

    def _judge(self, session: Session, ranks: Sequence[Rank], now: float) -> bool:
        still = self._stillness.still_for(now)
        if self._hung:
            if still < self._settings.hang_after / 2:
                self._hung = False
                self._say("the job makes progress again")
            return False
        if still < self._settings.hang_after:
            return False
        why = f"no progress for {duration(still)}"
        judged = look_at(session, ranks, self._rules)
        if not judged.stuck:
            self._say(f"{why}, but the job is not stuck")
            self._stillness.forget(now)
            return False
        return self._note_hang(session, judged, why)

    def _note_hang(self, session: Session, judged: JudgedJob, why: str) -> bool:
        self._hung = True
        collection = self._keep(session, judged, why)
        tell(self._settings, collection.summary, self._say)
        return True

    # --- collections ------------------------------------------------------------------------

    def collect_at_once(self, why: str, seconds: float, pass_on: Callable[[], None]) -> None:
        """On a signal: collect what can be had within these seconds. From any thread."""
        self._stillness.forget(time.monotonic())  # the program may take its time to react
        deadline = time.monotonic() + seconds
        self._has_looked.wait(seconds / 2)  # a watch that has just begun
        try:
            session = self._reaching.session_for_a_signal()
        except RankdbgError as error:
            self._say(f"{why}: nothing is collected: {error.in_one_line()}")
            return
        apart = session.apart(min(session.timeout, max(0.5, seconds / 3)))
        ranks = self._ranks or self._find_ranks(apart)
        before = {rank.process for rank in ranks if _is_alive(rank)}

        def is_whole() -> bool:
            """Whether the collected state is that before the signal, which a scheduler also sends
            to the ranks themselves."""
            try:
                now = {rank.process for rank in apart.job(self._job) if _is_alive(rank)}
            except RankdbgError:
                return False
            return before <= now and time.monotonic() < deadline

        if not ranks:
            self._say(f"{why}: no rank has been found yet, nothing is collected")
            return
        rules, folders = self._rules, self._folders
        with self.collecting:
            found = collect_quickly(apart, ranks, rules, folders, why, is_whole, pass_on)
        if isinstance(found, Collection):
            self._say_collected(found, why)
        else:
            self._say(f"{why}: stacks are in {found}")

    def _find_ranks(self, session: Session) -> Sequence[Rank]:
        """Some ranks may have started since the last poll."""
        try:
            return session.job(self._job)
        except RankdbgError:
            return ()

    def collect_on_request(self, why: str) -> None:
        """In the thread of the watch, while the job keeps running."""
        try:
            self._collect(self._reaching.session(), self._ranks, why)
        except Exception as error:
            self._troubles.note(error)

    def _collect(self, session: Session, ranks: Sequence[Rank], why: str) -> None:
        self._keep(session, look_at(session, ranks, self._rules), why)

    def _keep(self, session: Session, judged: JudgedJob, why: str) -> Collection:
        with self.collecting:
            collection = collect(session, judged, self._folders, why, self._settings.cuda)
        self._say_collected(collection, why)
        return collection

    def _say_collected(self, collection: Collection, why: str) -> None:
        self._say(f"{why}: {_in_short(collection.summary)}; {collection.directory / 'report.txt'}")
        if collection.failure:
            self._say(f"some of it could not be saved: {collection.failure}")


class TimeLimit:
    """The time limit of the scheduler: evidence is collected shortly before."""

    def __init__(self, before: float, own: bool) -> None:
        self._before = self._lead = before
        # Set by Slurm 23.02 and later, for the job that this process belongs to.
        said = os.environ.get("SLURM_JOB_END_TIME", "") if own else ""
        self._said = float(said) if said.isascii() and said.isdigit() else None
        self._end: float | None = None  # by the wall clock
        self._ask_at = 0.0
        self._over = not before

    @property
    def collect_at(self) -> float:
        """By time.monotonic()."""
        if self._over or self._end is None:
            return float("inf")
        return time.monotonic() + self._end - self._lead - time.time()

    def seconds_left(self, session: Session) -> float:
        """The remaining time, if it is time to collect (once; not if the limit was raised), or 0."""
        now = time.monotonic()
        if self._over or now < min(self._ask_at, self.collect_at):
            return 0.0
        try:
            end = session.cluster.end_time() or self._said
            self._ask_at = float("inf")
        except RankdbgError:
            end = self._end or self._said
            self._ask_at = now + LONGEST_PAUSE
        if self._end is None and end is not None:
            # For a short job, wait until three quarters have passed.
            self._lead = max(0.0, min(self._before, (end - time.time()) / 4))
        self._end = end
        if self.collect_at > now or end is None:
            return 0.0
        self._over = True
        return max(1.0, end - time.time())


def _rules(settings: WatchSettings, say: Callable[[str], None]) -> list[HangRule]:
    """The rule files may have been changed or removed since the watch began."""
    try:
        return load_hang_rules(settings.rules)
    except RankdbgError as error:
        say(f"{error.in_one_line()}; watching with rankdbg's own rules")
        return load_hang_rules(())


def _is_alive(rank: Rank) -> bool:
    return rank.state not in ("gone", "zombie")


def _silence_of_logs(session: Session, job: str) -> float:
    """Seconds since a process of the job last wrote to a log; 0 if unknown."""
    found = session.find_logs().of_job(job)
    ages = [
        found.clocks[file.node] - file.modified
        for file in found.files
        if file.job == job and file.modified and file.node in found.clocks
    ]
    return max(0.0, min(ages, default=0.0))


def _in_short(summary: Mapping[str, Any]) -> str:
    culprit = f", culprit: {summary['culprit']} ({summary['cause']})" if summary["culprit"] else ""
    return str(summary["says"]).rstrip(".") + culprit
