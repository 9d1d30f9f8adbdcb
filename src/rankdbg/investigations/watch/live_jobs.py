"""The jobs of a target as they are now, look by look: ranks, places, steps and their rate, for how
long each rank has made no progress, and the use of GPUs.

A look asks each node for its roster, one sample of the main threads, and the counters of the kernel:
what `rankdbg watch` asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rankdbg.errors import RankdbgError
from rankdbg.investigations.job_lists import only_ranks
from rankdbg.investigations.watch.stillness import Stillness, look_at_all
from rankdbg.process.user_code import innermost_user_frame
from rankdbg.session import Roster, Session, known_as
from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.hangs.gpu_signs import used_by
from rankdbg.wire.node_answers import Gpu, GpuFigures

# Over which a rate of steps is measured.
RATE_SECONDS = 60.0
# Jobs that have ended and are still shown.
MOST_ENDED = 20
_DEAD = ("gone", "zombie")


@dataclass(frozen=True)
class JobSteps:
    """`low` and `high`: of its ranks; `rate`: a second, None if it is not known yet; `logged`: when
    the last step was seen in a log, by time.monotonic()."""

    low: int
    high: int
    rate: float | None = None
    logged: float | None = None


@dataclass(frozen=True)
class LiveJob:
    """`age` and `still`: seconds, the second without progress of most ranks; `still_ranks`: the same
    of each rank; `ended`: by time.monotonic(), None while it runs."""

    name: str
    ranks: tuple[Rank, ...]
    age: float = 0.0
    inside: str = ""
    still: float = 0.0
    still_ranks: Mapping[ProcessKey, float] = field(default_factory=dict)
    steps: JobSteps | None = None
    ended: float | None = None

    @property
    def alive(self) -> list[Rank]:
        return [rank for rank in self.ranks if rank.state not in _DEAD]


@dataclass(frozen=True)
class JobsLook:
    """`at`: by time.monotonic(); `jobs`: by name; `silent_nodes`: and why they gave no answer; `job`:
    the name of the one that is wanted, and `others` which there are."""

    at: float
    jobs: Mapping[str, LiveJob]
    silent_nodes: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    job: str = ""
    others: Sequence[str] = ()


class LiveJobs:
    """Looks at all jobs, or at the one of that name, and keeps what one look alone does not tell."""

    def __init__(self, job: str | None = None) -> None:
        self._job = job
        self._stillness: dict[str, Stillness] = {}
        self._counters: dict[str, StepCounter] = {}
        self._jobs: dict[str, LiveJob] = {}
        self._last: dict[ProcessKey, Rank] = {}  # the last roster

    def look(self, session: Session, now: float) -> JobsLook:
        session.forget()
        roster = session.roster(where=False, job=self._job)
        found = roster.jobs()
        names = known_as(roster, found, self._job) if self._job else sorted(found)
        ranks = {name: only_ranks(found[name]) for name in names}
        alive = {name: own for name, own in ranks.items() if any(r.state not in _DEAD for r in own)}
        looks = [(self._stillness.setdefault(name, Stillness()), alive[name]) for name in alive]
        places = _places(look_at_all(session, looks, now))
        living = {
            name: self._live_job(roster, name, places, own, now) for name, own in alive.items()
        }
        self._last = {rank.process: rank for rank in roster.processes}
        gone = {name: job for name, job in self._jobs.items() if name not in living}
        lost = {name: job for name, job in gone.items() if _is_on(job, roster.silent_nodes)}
        ended = {name: job for name, job in gone.items() if name not in lost}
        self._jobs = {**living, **lost, **_ended(ended, found, now)}
        for known in (self._stillness, self._counters):
            for name in known.keys() - living.keys():
                del known[name]
        others = sorted(found.keys() - self._jobs.keys()) if self._job else ()
        notes = roster.notes
        return JobsLook(now, self._jobs, roster.silent_nodes, notes, self._job or "", others)

    def _live_job(
        self,
        roster: Roster,
        name: str,
        places: Mapping[ProcessKey, Frame],
        own: Sequence[Rank],
        now: float,
    ) -> LiveJob:
        stillness = self._stillness[name]
        # The roster is one more sample: a loop is mostly seen at the same of its lines.
        for rank in own:
            before = self._last.get(rank.process)
            if before is not None and _has_moved(before, rank):
                stillness.note_moved(rank.process, now)
        own = [r if r.where else replace(r, where=places.get(r.process)) for r in own]
        ages = [
            roster.ages[r.process] for r in own if r.state != "gone" and r.process in roster.ages
        ]
        steps = [rank.step for rank in own if rank.step is not None]
        counter = self._counters.setdefault(name, StepCounter())
        return LiveJob(
            name,
            tuple(_in_order(own)),
            max(ages, default=0.0),
            roster.inside.get(name, ""),
            stillness.still_since_seen(now),
            {key: now - place.since for key, place in stillness.places.items()},
            counter.count(steps, now) if steps else None,
        )


def _is_on(job: LiveJob, nodes: Container[str]) -> bool:
    """A job that is not seen because its nodes give no answer has not ended."""
    return job.ended is None and any(rank.host in nodes for rank in job.ranks)


def _ended(
    jobs: Mapping[str, LiveJob], found: Mapping[str, Sequence[Rank]], now: float
) -> dict[str, LiveJob]:
    """Those that were seen and run no longer, the last ones first."""
    ended = []
    for name, job in jobs.items():
        dead = {rank.process: rank for rank in found.get(name, ())}
        ranks = tuple(_dead(dead.get(rank.process, rank)) for rank in job.ranks)
        at = now if job.ended is None else job.ended
        ended.append(replace(job, ranks=ranks, ended=at, still=0.0, still_ranks={}))
    ended.sort(key=lambda job: -(job.ended or 0.0))
    return {job.name: job for job in ended[:MOST_ENDED]}


class StepCounter:
    """The steps of a job over its last looks, and their rate."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()  # when the highest step was first that high

    def count(self, steps: Sequence[int], now: float) -> JobSteps:
        high = max(steps)
        self.add(now, high)
        return JobSteps(min(steps), high, self.rate(now))

    def add(self, at: float, step: int) -> None:
        if self._seen and step < self._seen[0][1]:
            self._seen.clear()  # another phase, or it has started again
        if not self._seen or step > self._seen[-1][1]:
            self._seen.append((at, step))
        while len(self._seen) > 2 and self._seen[1][0] < self._seen[-1][0] - RATE_SECONDS:
            self._seen.popleft()

    def rate(self, now: float) -> float | None:
        """Steps a second. A step that does not come lowers it."""
        if len(self._seen) < 2:
            return None
        (first, low), (last, high) = self._seen[0], self._seen[-1]
        usual = (last - first) / (high - low)
        late = now - last if now - last > 2 * max(usual, (last - first) / len(self._seen)) else 0.0
        return (high - low) / max(last - first + late, 1e-3)


def _has_moved(before: Rank, after: Rank) -> bool:
    """Where both rosters tell."""
    if before.step != after.step:
        return True
    return None not in (before.where, after.where) and before.where != after.where


def _places(stacks: Mapping[ProcessKey, Sequence[Stack]]) -> dict[ProcessKey, Frame]:
    """The innermost frame of user code of each main thread."""
    return {
        process: stack.frames[innermost_user_frame(frame.file for frame in stack.frames)]
        for process, samples in stacks.items()
        for stack in samples
        if stack.frames
    }


def _dead(rank: Rank) -> Rank:
    return rank if rank.state in _DEAD else replace(rank, state="gone", where=None)


def _in_order(ranks: Iterable[Rank]) -> list[Rank]:
    return sorted(ranks, key=lambda r: (r.role, r.number is None, r.number or 0, r.process))


# --- GPUs ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GpuUse:
    """In percent: of each rank whose GPUs are known, and the mean over each node that does not tell
    which processes use its GPUs; `found`: whether there is any GPU."""

    ranks: Mapping[ProcessKey, float] = field(default_factory=dict)
    nodes: Mapping[str, float] = field(default_factory=dict)
    found: bool = False

    def of(self, ranks: Iterable[Rank]) -> float | None:
        """The mean over these ranks; where their GPUs are not known, over their nodes."""
        some = [*ranks]
        known = [self.ranks[rank.process] for rank in some if rank.process in self.ranks]
        return _mean(known or [self.nodes[h] for h in {r.host for r in some} if h in self.nodes])

    def of_ranks(self, ranks: Iterable[Rank]) -> float | None:
        """Of those alone whose own GPUs are known."""
        return _mean([self.ranks[rank.process] for rank in ranks if rank.process in self.ranks])


def read_gpu_use(session: Session, ranks: Iterable[Rank]) -> GpuUse:
    answers = session.gpus()
    known = {node: told for node, told in answers.items() if not isinstance(told, RankdbgError)}
    return gpu_use(known, ranks)


def gpu_use(figures: Mapping[str, GpuFigures], ranks: Iterable[Rank]) -> GpuUse:
    used = {
        rank.process: _mean(_figures(used_by(rank.pid, figures[rank.host].gpus)))
        for rank in ranks
        if rank.host in figures
    }
    # Where processes are known, a job without any on the GPUs does not use them.
    nodes = {node: _mean(_figures(told.gpus)) for node, told in figures.items() if told.pids}
    return GpuUse(
        {process: use for process, use in used.items() if use is not None},
        {node: use for node, use in nodes.items() if use is not None},
        any(told.gpus for told in figures.values()),
    )


def _figures(gpus: Iterable[Gpu]) -> list[float]:
    return [gpu.utilization for gpu in gpus if gpu.utilization is not None]


def _mean(figures: Sequence[float]) -> float | None:
    return sum(figures) / len(figures) if figures else None
