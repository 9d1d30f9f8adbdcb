"""Whom Ray's messages are about: a driver's log tells of actors elsewhere, and Ray's own logs of
all jobs of the cluster."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from rankdbg.logs.patterns import Hit, Pattern
from rankdbg.logs.places import LogFile, ray_worker

# ray::Trainer.step() (pid=320, ip=10.0.0.2, actor_id=…): the error of that process follows.
_TASK = r"ray::(?:[^:\s]*:)?([\w.<>]+?)(?:\.\w+)?\(\)\S* \(pid=(\d+), ip=([\w.:]+)"
# An actor that has died is described in lines of their own, after the line that says so.
_DIED = r"^\s*pid: (\d+)\s*$"
# A raylet quotes what a constructor has raised after a line that names the worker, and what kept an
# environment from being made after the job.
_QUOTES = r"Formatted creation task exception: |\bjob [0-9a-f]{8}, error message: "
PATTERNS = [
    Pattern("speaks:task", (("ray::", _TASK),), numbered=False),
    Pattern("speaks:died", (("pid: ", _DIED),), before=4, after=4, numbered=False),
    Pattern(
        _QUOTED := "speaks:quoted",
        (("Formatted creation task exception", _QUOTES), (", error message", _QUOTES)),
        before=1,
        numbered=False,
    ),
    # The files of a worker are on its node, which may give no response. The head knows its job.
    Pattern(_PLACED := "speaks:placed", (("Actor creation task succeeded", ""),), numbered=False),
]
# (raylet) …, (autoscaler +5s) …, or a line with a clock: not of a traceback.
_OTHERS = re.compile(r"\s*(\(\w|\[?\d{4}-\d\d-\d\d)")
_REACH = 8 << 10  # bytes of a traceback after the line that says whose it is
_AROUND = 1 << 10
# An actor's number ends with its job's; a driver's number as a worker begins with it.
_JOB = re.compile(
    r"\b[0-9a-f]{24}([0-9a-f]{8})\b|\b([0-9a-f]{8})f{48}\b|\bjob(?:_?id)?[=: ]+\"?([0-9a-f]{8})\b",
    re.IGNORECASE,
)
_WORKER = re.compile(r"\b[0-9a-f]{56}\b")
_PLACED_WORKER = re.compile(r"\bworker_id=([0-9a-f]{56})\b")


class RaySpeaker(NamedTuple):
    begin: int  # of the part of a file that is about it
    end: int
    name: str
    pid: int
    address: str


class RaySpeakers:
    """The parts of one file that are about a process of Ray's."""

    def __init__(self, hits: Iterable[Hit]) -> None:
        self._found = sorted(filter(None, map(_speaker, hits)))
        self._begins = [speaker.begin for speaker in self._found]

    def of(self, hit: Hit) -> RaySpeaker | None:
        """The last one before this line, if it reaches so far and no other has begun."""
        # A driver's traceback ends with whose error it was.
        if "Traceback" in hit.text and (task := _task_that_raised(hit.after)):
            return RaySpeaker(hit.offset, hit.offset, task[1], int(task[2]), task[3])
        if _OTHERS.match(hit.head):
            return None
        place = bisect_right(self._begins, hit.offset) - 1
        if place < 0 or hit.offset > self._found[place].end:
            return None
        return self._found[place]


def _task_that_raised(lines: Iterable[str]) -> re.Match[str] | None:
    """The last one of those that have passed the error on, one after the other."""
    found = None
    for line in lines:
        if line and not line.startswith((" ", "\t")):
            task = re.search(_TASK, line)
            if task is None:
                break
            found = task
    return found


def _speaker(hit: Hit) -> RaySpeaker | None:
    if hit.pattern == "speaks:task" and (task := re.search(_TASK, hit.text)):
        return RaySpeaker(hit.offset, hit.offset + _REACH, task[1], int(task[2]), task[3])
    if hit.pattern == "speaks:died" and (died := re.search(_DIED, hit.text)):
        said = dict(
            line.strip().split(": ", 1) for line in [*hit.before, *hit.after] if ": " in line
        )
        begin, end = max(0, hit.offset - _AROUND), hit.offset + _AROUND
        return RaySpeaker(begin, end, said.get("class_name", ""), int(died[1]), said.get("ip", ""))
    return None


class Jobs:
    """Whose lines are in Ray's own logs, which all jobs of a cluster share."""

    def __init__(self, files: Iterable[LogFile], hits: Iterable[Hit] = ()) -> None:
        """`hits`: of Ray's own logs."""
        self._of_worker: dict[str, str] = {}
        self._names: dict[str, str] = {}  # of jobs, by the numbers that Ray gives them
        for file in files:
            if worker := ray_worker(file.path.rpartition("/")[2]):
                self._of_worker[worker[0]] = file.job
                self._names[worker[1]] = file.job
        for hit in hits:
            if hit.pattern == _PLACED and (placed := _PLACED_WORKER.search(hit.text)):
                for job in self._named_jobs(hit.text):
                    self._of_worker.setdefault(placed[1], job)

    def without_others(self, hits: Iterable[Hit], job: str) -> tuple[Hit, ...]:
        """Those of one file that are not of other jobs."""
        hits = tuple(hits)
        quoted = _Quoted(hits)
        return tuple(hit for hit in hits if not self.is_of_another(hit, job, quoted.told_for(hit)))

    def is_of_another(self, hit: Hit, job: str, told: str = "") -> bool:
        """Whether a line names jobs, actors or workers, and none of this job. `told`: a line that
        names them for it."""
        if not job.startswith("ray-") and job not in self._names.values():
            return False
        named = self._named(told or " ".join([hit.text, *hit.after[:12]]))
        return bool(named) and job not in named

    def _named(self, text: str) -> set[str]:
        jobs = self._named_jobs(text)
        workers = {self._of_worker.get(ident, "") for ident in _WORKER.findall(text)}
        return jobs | (workers - {""})

    def _named_jobs(self, text: str) -> set[str]:
        numbers = {next(filter(None, found)) for found in _JOB.findall(text)}
        return {self._names.get(number, f"ray-{number}") for number in numbers}


class _Quoted:
    """The parts of one file that quote errors: their lines do not say whose they are."""

    def __init__(self, hits: Iterable[Hit]) -> None:
        self._begins = sorted((h for h in hits if h.pattern == _QUOTED), key=_offset)
        self._offsets = [begin.offset for begin in self._begins]

    def told_for(self, hit: Hit) -> str:
        """The line that names the job or the worker for this one, or ``."""
        place = bisect_right(self._offsets, hit.offset) - 1
        if place < 0:
            return ""
        begin = self._begins[place]
        quoted = not _OTHERS.match(hit.head) and hit.stamp == begin.stamp
        if not quoted and hit.offset != begin.offset:
            return ""
        return begin.text if _JOB.search(begin.text) else " ".join(begin.before)


def _offset(hit: Hit) -> int:
    return hit.offset
