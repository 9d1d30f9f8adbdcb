"""What `rankdbg top` knows of a target, made by hand: ranks, jobs, verdicts."""

from __future__ import annotations

from typing import Any

from rankdbg.frontends.top.views import Picture
from rankdbg.investigations.watch.live_jobs import JobsLook, JobSteps, LiveJob
from rankdbg.investigations.watch.live_verdicts import LiveVerdict
from rankdbg.types import Frame, ProcessKey, Rank

RECEIVES = Frame("Ring.receive", "/job/train.py", 30)
READS = Frame("read_shard", "/job/data.py", 11)
STUCK = LiveVerdict(
    at=100.0,
    state="stuck",
    headline="The job is stuck: no rank has made progress for 1.1 s.",
    culprit="rank 5 (dp=2 tp=1, node-1, pid 105)",
    cause="waiting to open shards/shard-0007, in read_shard data.py:11 [waits-for-file]",
    next="ls -l shards/shard-0007 shows what it is",
    chain="rank 5 → the named pipe shards/shard-0007",
)


def rank(number: int, where: Frame | None = RECEIVES, **settings: Any) -> Rank:
    process = ProcessKey(settings.pop("host", "node-1"), 100 + number, 1)
    coordinates = {"dp": number // 2, "tp": number % 2}
    given = {"job": "demo", "coordinates": coordinates, "where": where, **settings}
    return Rank(process, number=number, **given)


def demo_job(**settings: Any) -> LiveJob:
    """Eight ranks, of which rank 5 is alone."""
    ranks = tuple(rank(number, READS if number == 5 else RECEIVES) for number in range(8))
    still = settings.get("still", 0.0)
    given = {"age": 240.0, "still_ranks": {r.process: still for r in ranks}, **settings}
    return LiveJob("demo", ranks, **given)


def many_jobs(count: int) -> list[LiveJob]:
    return [LiveJob(f"job-{n:02}", (rank(0, job=f"job-{n:02}"),)) for n in range(count)]


def picture(*jobs: LiveJob, at: float = 100.0, **settings: Any) -> Picture:
    look = JobsLook(at, {job.name: job for job in jobs}, settings.pop("silent_nodes", {}))
    return Picture(look=look, answered=at, **settings)


def steps(low: int, high: int, rate: float | None = None) -> JobSteps:
    return JobSteps(low, high, rate)
