"""Verdicts on jobs that are looked at live: a job is judged when most of its ranks make no progress,
and again when that may have changed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankdbg.investigations.watch.live_jobs import LiveJob
from rankdbg.text.amounts import duration

if TYPE_CHECKING:
    from rankdbg.investigations.hangs.job_verdicts import JobVerdict
    from rankdbg.session import Session
    from rankdbg.verdicts.hangs.hang_rules import HangRule

# Without progress of most ranks: judge a job that was seen to move, or that has just been found.
STILL_SECONDS, STILL_AT_FIRST = 10.0, 4.0
# A job that is not stuck is judged again after this long, if it still makes no progress.
SHORTEST_PAUSE, LONGEST_PAUSE = 30.0, 300.0


@dataclass(frozen=True)
class LiveVerdict:
    """`at`: when it was found, by time.monotonic(); texts as `rankdbg why` prints them."""

    at: float
    state: str
    headline: str
    culprit: str = ""
    cause: str = ""
    next: str = ""
    chain: str = ""
    waited: float | None = None  # seconds, as recorders tell
    is_at_start: bool = False  # stuck before all ranks have joined

    @property
    def stuck(self) -> bool:
        return self.state == "stuck"

    def first_line(self, job: LiveJob, now: float) -> str:
        """The headline; of a job that is stuck, with for how long it is by now."""
        if not self.stuck or not self.culprit or self.is_at_start:
            return self.headline
        if self.waited is not None:
            waited = duration(self.waited + max(0.0, now - self.at))
            return f"The job is stuck: ranks have waited for {waited}."
        return f"The job is stuck: no rank has made progress for {duration(job.still)}."


@dataclass
class JobJudging:
    """What is known about the verdicts on one job."""

    first_seen: float
    verdict: LiveVerdict | None = None
    has_moved: bool = False
    pause: float = SHORTEST_PAUSE

    def note_look(self, job: LiveJob, now: float) -> None:
        """A verdict on a job that has made progress since is dropped."""
        since = now - (self.verdict.at if self.verdict else self.first_seen)
        if job.still < min(STILL_SECONDS, since / 2) - 1e-3:
            self.verdict = None
            self.has_moved = True
            self.pause = SHORTEST_PAUSE

    def is_due(self, job: LiveJob, now: float) -> bool:
        if job.ended is not None or not job.alive:
            return False
        if self.verdict is None:
            return job.still >= (STILL_SECONDS if self.has_moved else STILL_AT_FIRST)
        if self.verdict.stuck:
            return False
        return now - self.verdict.at >= self.pause

    def note_verdict(self, verdict: LiveVerdict) -> None:
        if self.verdict is not None:
            self.pause = min(2 * self.pause, LONGEST_PAUSE)
        self.verdict = verdict


def judge_job(session: Session, job: LiveJob, rules: Sequence[HangRule]) -> LiveVerdict:
    """Takes a second, or a few: the ranks are sampled several times."""
    # Not imported before: the first screen does not wait for it.
    from rankdbg.investigations.hangs.further_looks import judge_ranks

    found = judge_ranks(session, job.ranks, job.ranks, rules)
    return short_verdict(found, time.monotonic())


def short_verdict(found: JobVerdict, now: float) -> LiveVerdict:
    first, verdict = found.first, found.verdict
    if first is None:
        return LiveVerdict(now, verdict.state, found.headline())
    return LiveVerdict(
        now,
        verdict.state,
        found.headline(),
        found.culprit_text(first),
        f"{first.says} [{first.cause}]",
        first.next,
        found.chain_text(),
        verdict.waited,
        verdict.waited is None and verdict.started is not None,
    )
