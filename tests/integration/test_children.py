"""Processes below ranks, here workers of real DataLoaders: what they do explains why a rank waits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hanging import HangingJob, HangingJobs, Start, parameters_after
from jobs import rankdbg
from tiers import chiefly
from torch_ranks import needs_torch

pytestmark = [needs_torch, pytest.mark.slow]


def loading(trouble: str, **how: Any) -> Start:
    """A job whose rank 1 has that trouble with its data."""
    return Start("worker_trouble", ranks="2", arguments=(trouble,), **how)


MOST = 3  # of several troubles, `make test` tries the first ones


def troubled(*troubles: str) -> pytest.MarkDecorator:
    starts = [loading(trouble, busy=trouble == "spinning") for trouble in troubles]
    return pytest.mark.parametrize("start", chiefly(starts[:MOST], starts), ids=troubles)


@pytest.fixture(scope="module")
def hanging_jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HangingJobs]:
    jobs = HangingJobs(tmp_path_factory.mktemp("loading"))
    yield jobs
    jobs.end_all()


@pytest.fixture
def hanging(
    request: pytest.FixtureRequest, hanging_jobs: HangingJobs, start: Start
) -> Iterator[HangingJob]:
    job = hanging_jobs.take(start, parameters_after(request.node, "start"))
    try:
        job.wait()
        yield job
    finally:
        hanging_jobs.end(start)


TROUBLES = {
    "lock": {"waits-for-lock"},
    "stopped": {"stopped-by-signal"},
    # vfork, which stands in for a file system here, has a place of its own in the kernel.
    "kernel": {"uninterruptible", "file-system"},
    "spinning": {"endless-loop"},
    "polling": {"sleeping"},
}
# Those that are also looked at from outside; RANKDBG_TEST_HANGS=all: all of them. What waits for a
# file is looked at below.
EVERY_ONE = os.environ.get("RANKDBG_TEST_HANGS") == "all"
FROM_OUTSIDE = TROUBLES if EVERY_ONE else ("lock",)


@troubled(*TROUBLES)
def test_a_worker_in_trouble(hanging: HangingJob, start: Start) -> None:
    """The verdict names the worker that the rank waits for, its place, and what it does there."""
    (trouble,) = start.arguments
    for options in ((), ("--outside",)) if trouble in FROM_OUTSIDE else ((),):
        verdict = hanging.why("--longest", "40", *options)
        said = json.dumps(verdict, indent=1)
        assert (verdict["stuck"], verdict["culprit"]) == (True, "1"), said
        assert verdict["cause"] in ("data-loading", "data-loader-worker"), said
        child = verdict["findings"][0]["child"]
        assert child["cause"] in TROUBLES[trouble], said
        assert child["where"]["function"] == "read_shard", said
        assert str(child["pid"]) in verdict["findings"][0]["says"], said


@troubled("killed")
def test_a_worker_that_was_killed(hanging: HangingJob) -> None:
    """Where torch is not told of it, the other worker has nothing to do, and the rank waits."""
    verdict = hanging.why("--longest", "40")
    said = json.dumps(verdict, indent=1)
    assert (verdict["stuck"], verdict["culprit"]) == (True, "1"), said
    assert verdict["findings"][0]["child"]["cause"] == "idle-worker", said
    assert "has died" in verdict["findings"][0]["why"], said


@troubled("all-killed")
def test_all_workers_were_killed(hanging: HangingJob) -> None:
    verdict = hanging.why("--longest", "40")
    assert (verdict["culprit"], verdict["cause"]) == ("1", "data-loader-worker"), verdict


@troubled("slow")
def test_workers_that_are_slow(hanging: HangingJob) -> None:
    """Nobody is accused while a worker gets its data bit by bit."""
    verdict = hanging.why()
    assert not verdict["stuck"], verdict
    (same,) = [row for row in verdict["ranks"] if "1" in row["ranks"]]
    assert same["child"] is None, verdict


@troubled("idle-workers")
def test_workers_without_work(hanging: HangingJob) -> None:
    """A rank that stands for a reason of its own is not explained by workers that wait for it."""
    verdict = hanging.why("--longest", "40")
    assert (verdict["culprit"], verdict["cause"]) == ("1", "waits-for-file"), verdict
    assert verdict["findings"][0]["child"] is None, verdict


def children_of(document: Any) -> dict[str, set[int]]:
    """The processes by the innermost functions of theirs."""
    found: dict[str, set[int]] = {}
    for group in document["children"]["groups"]:
        assert {entry["rank"] for entry in group["processes"]} == {1}
        pids = {entry["pid"] for entry in group["processes"]}
        found.setdefault(group["frames"][0]["function"], set()).update(pids)
    return found


STARTS = [loading("fifo"), loading("fifo", agent=False)]


@pytest.mark.parametrize("start", chiefly(STARTS[:1], STARTS), ids=["agent", "outside"])
def test_stacks_of_children(hanging: HangingJob, tmp_path: Path) -> None:
    """With the rank's own stack, named by rank and pid; the same in a snapshot, with the verdict."""
    job = hanging.job
    seen = children_of(job.json("stacks", "1", "--children", "--save", tmp_path / "looked"))
    assert sum(map(len, seen.values())) == 2
    (worker,) = seen["read_shard"]
    text = job.cli("stacks", "1", "--children", env={"COLUMNS": "80"}).stdout
    assert f"1/{worker}" in text
    assert "2 child processes" in text
    assert max(map(len, text.splitlines())) <= 80
    assert job.cli("save", tmp_path / "saved").returncode == 0
    assert "children" not in job.json("stacks", "1")
    for folder in ("looked", "saved"):
        again = rankdbg(
            "stacks", "-t", f"snapshot:{tmp_path / folder}", "1", "--children", "--json"
        )
        assert children_of(json.loads(again.stdout)) == seen, again.stderr
    verdict = rankdbg("why", "-t", f"snapshot:{tmp_path / 'saved'}", "--json")
    child = json.loads(verdict.stdout)["findings"][0]["child"]
    assert (child["pid"], child["cause"]) == (worker, "waits-for-file")
