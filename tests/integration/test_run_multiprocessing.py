"""rankdbg run with multiprocessing: who is a rank, with and without numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job
from rankdbg.types import Answer, Rank
from rosters import all_wait, has_kinds, kinds, numbers, of_kind
from tiers import chiefly
from waiting import wait_for

METHODS = ("fork", "spawn", "forkserver")
# What the method itself starts beside the children.
BESIDE = {"fork": {}, "spawn": {"helper": 1}, "forkserver": {"helper": 2}}


def start(job: Job, program: str, *words: object, **settings: object) -> Any:
    return job.start(sys.executable, PROGRAMS / program, *words, **settings)


@pytest.mark.parametrize("how", ["by_environment", "by_init", "by_nothing"])
@pytest.mark.parametrize("method", METHODS)
def test_children_are_the_ranks(job: Job, method: str, how: str) -> None:
    """Children that set RANK, call init(), or say nothing are ranks; their parent is not."""
    start(job, "run_children.py", method, how, 3)
    ranks = job.wait_for(has_kinds(3, launcher=1, **BESIDE[method]), everything=True)
    assert numbers(ranks) == [0, 1, 2]
    (launcher,) = of_kind(ranks, "launcher")
    assert launcher.process.start <= min(r.process.start for r in of_kind(ranks, "rank"))


@pytest.mark.parametrize("method", chiefly(["fork"], METHODS))
def test_unnumbered_children_are_in_order(job: Job, method: str) -> None:
    """Children without a number are numbered in the order in which they were made."""
    start(job, "run_children.py", method, "by_nothing", 4)
    job.wait_for(all_wait(4))
    values = {}
    with job.session() as session:
        ranks = session.job(job.name)
        for answer in session.evaluate(ranks, "index", frame="by_nothing"):
            values[answer.rank.number] = answer.value.text
    assert values == {0: "0", 1: "1", 2: "2", 3: "3"}


def test_fork_of_a_worker(job: Job) -> None:
    """A worker that calls os.fork() is still one rank; the fork is its child."""
    start(job, "run_children.py", "fork", "with_a_fork", 2)
    ranks = job.wait_for(has_kinds(2, launcher=1, child=2), everything=True)
    assert numbers(ranks) == [0, 1]


def test_pool_in_a_worker(job: Job) -> None:
    """The pool of a worker that may have children is no rank."""
    start(job, "run_children.py", "fork", "with_a_pool", 2)
    ranks = job.wait_for(has_kinds(2, launcher=1, child=4), everything=True)
    assert numbers(ranks) == [0, 1]


@pytest.mark.extra
@pytest.mark.slow
def test_torch_spawn(job: Job, tmp_path: Path) -> None:
    """With torch.multiprocessing.spawn the number is the one that torch has, not the order."""
    launcher = start(job, "run_torch_spawn.py", 3, tmp_path / "store")
    assert launcher.stdout.readline() == "ready\n"
    all_there = has_kinds(3, launcher=1, helper=1)

    def in_a_world_of_three(ranks: list[Rank]) -> bool:
        return all_there(ranks) and {rank.world for rank in of_kind(ranks, "rank")} == {3}

    workers = of_kind(job.wait_for(in_a_world_of_three, everything=True), "rank")
    order = wait_for(lambda: indices(job, workers), "an answer of each")
    assert {worker.number: 2 - order[worker.pid] for worker in workers} == {0: 0, 1: 1, 2: 2}


def indices(job: Job, workers: list[Rank]) -> dict[int, int] | None:
    """As which process torch has started each, by pid, as soon as all of them answer."""
    with job.session() as session:
        answers = session.evaluate(workers, "index", frame="rank")
    values = {a.rank.pid: a.value.text for a in answers if isinstance(a, Answer)}
    return {pid: int(text) for pid, text in values.items()} if len(values) == 3 else None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["pool", "futures"])
@pytest.mark.parametrize("rank", chiefly([None], ["5", None]))
def test_pools_are_children(job: Job, kind: str, method: str, rank: str | None) -> None:
    """The workers of a Pool and of concurrent.futures are children, of a rank with a number
    and of a process without one, which is rank 0."""
    environment = {} if rank is None else {"RANK": rank}
    start(job, "run_pool.py", kind, method, env=environment)
    ranks = job.wait_for(has_kinds(1, child=2, **BESIDE[method]), everything=True)
    assert numbers(ranks) == [int(rank or 0)]
    assert kinds(job.ranks()) == {"rank": 1}
