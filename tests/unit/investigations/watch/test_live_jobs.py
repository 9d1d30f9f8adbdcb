"""Steps, their rate, the use of GPUs, and when a job is judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from live_pictures import STUCK, demo_job, rank
from rankdbg.investigations.watch.live_jobs import StepCounter, gpu_use
from rankdbg.investigations.watch.live_verdicts import JobJudging
from rankdbg.wire.node_answers import Gpu, GpuFigures, GpuProcess


def test_rate_of_steps() -> None:
    """Over the last looks; one that does not come lowers it, and a restart begins anew."""
    counter = StepCounter()
    assert counter.count([5, 4], 0.0).rate is None
    seen = [counter.count([5 + 2 * look], look) for look in range(1, 11)][-1]
    assert (seen.low, seen.high, seen.rate) == (25, 25, 2.0)
    assert counter.rate(11.0) == 2.0
    assert counter.rate(30.0) == pytest.approx(20 / 30)
    assert counter.count([0], 31.0).rate is None


def test_rate_is_that_of_the_last_minute() -> None:
    counter = StepCounter()
    for second in range(0, 600, 10):
        counter.add(second, second // 10 if second < 300 else second)
    assert counter.rate(590) == pytest.approx(1.0)


def test_use_of_gpus() -> None:
    """Of a rank, by the processes that NVML names; of a node, where it names none because it
    cannot."""
    gpus = (
        Gpu(0, utilization=90, processes=(GpuProcess(100),)),
        Gpu(1, utilization=10, processes=(GpuProcess(101),)),
    )
    other = (Gpu(0, utilization=30),)
    figures = {
        "node-1": GpuFigures(gpus, "580", ""),
        "node-2": GpuFigures(other, "580", "", pids="in a container"),
        "node-3": GpuFigures(other, "580", ""),
        "node-4": GpuFigures((), "", "no driver"),
    }
    ranks = [rank(0), rank(1), rank(2), *(rank(n, host=f"node-{n - 1}") for n in (3, 4, 5))]
    use = gpu_use(figures, ranks)
    assert use.of_ranks(ranks[:1]) == 90
    assert use.of_ranks(ranks[2:]) is None
    assert use.of(ranks[:2]) == 50
    assert [use.of([each]) for each in ranks[3:]] == [30, None, None]
    assert use.found and not gpu_use({"node-4": figures["node-4"]}, ranks).found


def test_when_a_job_is_judged() -> None:
    """When it makes no progress: soon where it never did, later where it did, once where it is
    stuck; a verdict is dropped when it makes progress."""
    job, state = demo_job(), JobJudging(0.0)

    def due(now: float, still: float) -> bool:
        seen = replace(job, still=still)
        state.note_look(seen, now)
        return state.is_due(seen, now)

    assert not due(0.0, 0.0)
    assert not due(2.0, 2.0)
    assert due(4.0, 4.0)
    state.note_verdict(replace(STUCK, at=5.0))
    assert not due(60.0, 60.0)
    assert state.verdict is not None
    assert not due(62.0, 1.0)
    assert state.verdict is None
    assert not due(70.0, 9.0)
    assert due(71.0, 10.0)
    state.note_verdict(replace(STUCK, at=72.0, state="idle"))
    assert not due(100.0, 39.0)
    assert due(102.0, 41.0)
    state.note_verdict(replace(STUCK, at=102.0, state="idle"))
    assert not due(140.0, 79.0)
    assert due(162.0, 101.0)
    assert not state.is_due(replace(job, ended=162.0), 900.0)
