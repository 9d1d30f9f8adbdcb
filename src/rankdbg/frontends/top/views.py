"""Where the user is: which view, which row, which filter. Values without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rankdbg.frontends.terminal import PageTerminal
from rankdbg.investigations.watch.live_jobs import GpuUse, JobsLook, JobSteps, LiveJob
from rankdbg.investigations.watch.live_verdicts import LiveVerdict
from rankdbg.selection import Selection
from rankdbg.text.escapes import visible_line
from rankdbg.types import ProcessKey

Line = list[tuple[str, str]]  # pieces: a style and a text
Kind = Literal["jobs", "groups", "ranks", "page"]


@dataclass(frozen=True)
class Picture:
    """What is known of the target. Times are those of time.monotonic().

    `asked`: when the look that is under way began, None if none is; `answered`: when the last one
    ended; `failure`: why the last one failed; `steps`: by job, of their logs; `judging`: jobs."""

    look: JobsLook | None = None
    gpus: GpuUse = field(default_factory=GpuUse)
    verdicts: Mapping[str, LiveVerdict] = field(default_factory=dict)
    judging: frozenset[str] = frozenset()
    steps: Mapping[str, JobSteps] = field(default_factory=dict)
    begun: float = 0.0
    asked: float | None = None
    answered: float | None = None
    failure: str = ""
    ended: str = ""  # why the target has no job any more, if that is certain
    tables: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)  # table_of()
    trouble: str = ""  # why there may be no verdicts, steps or GPUs

    def job(self, name: str) -> LiveJob | None:
        job = self.look.jobs.get(name) if self.look else None
        return self.still_of(job) if job is not None else None

    def jobs(self) -> list[LiveJob]:
        return [self.still_of(job) for job in self.look.jobs.values()] if self.look else []

    def still_of(self, job: LiveJob) -> LiveJob:
        """The same job: a step that its log has shown is progress of all of its ranks."""
        steps = self.steps.get(job.name)
        if steps is None or steps.logged is None or self.look is None or job.ended is not None:
            return job
        since = max(0.0, self.look.at - steps.logged)
        ranks = {process: min(still, since) for process, still in job.still_ranks.items()}
        return replace(job, still=min(job.still, since), still_ranks=ranks)

    def steps_of(self, job: LiveJob) -> JobSteps | None:
        return job.steps or self.steps.get(job.name)


@dataclass
class Page:
    """A report in full. `show`: prints it; None while it is read; `failure`: why there is none."""

    title: str
    command: str
    show: Callable[[PageTerminal], None] | None = None
    failure: str = ""
    begun: float = 0.0
    _lines: tuple[int, list[Line]] | None = None

    def lines(self, width: int, now: float) -> list[Line]:
        if self.failure:
            return _wrapped([("red", "error: "), ("", visible_line(self.failure))], width)
        if self.show is None:
            return [[("dim", f"reading … {max(0.0, now - self.begun):.0f} s")]]
        if self._lines is None or self._lines[0] != width:
            terminal = PageTerminal(width)
            self.show(terminal)
            self._lines = width, [part for line in terminal.lines for part in _wrapped(line, width)]
        return self._lines[1]

    @property
    def begins_at_end(self) -> bool:
        return self.command == "logs"


def _wrapped(line: Line, width: int) -> list[Line]:
    """At the right edge, wherever that is: lines of logs are long."""
    made: list[Line] = [[]]
    left = width
    for style, text in line:
        while text:
            if not left:
                made.append([])
                left = width
            made[-1].append((style, text[:left]))
            text, left = text[left:], left - min(left, len(text))
    return made


@dataclass(frozen=True)
class Place:
    """One view; those that it was opened from lie below it. `cursor`: the key of a row; `index`:
    where that row was, should it vanish; `ranks`: those that it shows, None for all of the job."""

    kind: Kind
    job: str = ""
    ranks: frozenset[ProcessKey] | None = None
    title: str = ""
    cursor: Any = None
    index: int = 0
    page: Page | None = None
    scroll: int | None = None  # None: where its page begins

    def first_line(self, count: int, room: int) -> int:
        """Of a page with so many lines, of which so many are seen at once."""
        last = max(0, count - room)
        if self.scroll is None:
            return last if self.page is not None and self.page.begins_at_end else 0
        return max(0, min(self.scroll, last))


@dataclass(frozen=True)
class View:
    """`typed`: the filter that is being typed, None if none is; `error`: what is wrong with it;
    `chosen`: the filter."""

    places: tuple[Place, ...] = (Place("jobs"),)
    chosen: Selection | None = None
    typed: str | None = None
    error: str = ""
    paused: bool = False
    every: float = 2.0
    target: str = "local"

    @property
    def place(self) -> Place:
        return self.places[-1]

    def at(self, **changes: Any) -> View:
        """The same with changes of the place on top."""
        return replace(self, places=(*self.places[:-1], replace(self.place, **changes)))

    def opened(self, place: Place) -> View:
        return replace(self, places=(*self.places, place))

    def closed(self) -> View:
        return replace(self, places=self.places[:-1] or self.places)


def job_places(jobs: Sequence[str]) -> tuple[Place, ...]:
    """At the start: a single job is opened at once."""
    first = Place("jobs", cursor=jobs[0] if jobs else None)
    return (first, Place("groups", job=jobs[0])) if len(jobs) == 1 else (first,)
