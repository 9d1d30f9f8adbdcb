"""The step that a job has reached, by its log, and how many it takes a second: for programs that do
not call rankdbg.progress()."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from rankdbg.errors import RankdbgError
from rankdbg.investigations.logs.log_sources import LogSource, job_messages
from rankdbg.investigations.watch.live_jobs import JobSteps, StepCounter
from rankdbg.logs.entries import Entry, LogQuery
from rankdbg.session import Session

# Messages that are read at the start: enough for a rate.
MOST_AT_FIRST = 200
# What trainers print: `step 12`, `global_step=12`, `iteration 12/ 500`, `iter: 12`; a bar of tqdm.
_WORD = r"(?:\b|_)(?:steps?|iter(?:ation)?s?)[\"']?[ \t]*[:=#]?[ \t]*"
STEP = rf"(?i){_WORD}\d+\b(?![.:]\d)|\d+/\d+ \[\d+:\d\d"
_STEP = re.compile(rf"{_WORD}(\d+)\b(?![.:]\d)", re.IGNORECASE)
_BAR = re.compile(r"(\d+)/\d+ \[\d+:\d\d")
_LONGEST = 12  # digits


def step_in(text: str) -> int | None:
    """The step that a message names; of several, the last one."""
    found = [*_STEP.findall(text)] or [*_BAR.findall(text)]
    return int(found[-1]) if found and len(found[-1]) <= _LONGEST else None


class LoggedSteps:
    """Of one job. Each look reads only what has been written since the last one."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._source: LogSource | None = None
        self._counter = StepCounter()
        self._high: int | None = None  # of the messages that were read last
        self._time = self._arrived = 0.0  # of the last one
        self._is_begun = False
        self._logged: float | None = None
        self._wanted = LogQuery(grep=STEP, limit=MOST_AT_FIRST, follow=True)

    def look(self, session: Session) -> JobSteps | None:
        """None if its log names no step, or cannot be read."""
        try:
            if self._source is None:
                source = job_messages(session, self._job)
                self._add(source.read(self._wanted).entries)
                self._source, self._is_begun = source, True
            else:
                self._add(self._source.read_new(self._wanted).entries)
        except RankdbgError:
            self._source, self._is_begun = None, False  # its files are found anew
        if self._high is None:
            return None
        now = self._time + time.monotonic() - self._arrived
        return JobSteps(self._high, self._high, self._counter.rate(now), self._logged)

    def _add(self, entries: Iterable[Entry]) -> None:
        steps = [(e.time, step) for e in entries if (step := step_in(e.text)) is not None]
        for at, step in steps:
            # By the clock of the log, which need not be that of this machine.
            self._time = time.time() if at is None else at
            self._counter.add(self._time, step)
        if steps:
            self._arrived = time.monotonic()
            if self._is_begun:  # what has been read first may be old
                self._logged = self._arrived
            self._high = max(step for _, step in steps)
