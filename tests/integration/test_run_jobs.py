"""Jobs over time and beside each other: restarts, dead ranks, names, roles and meshes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from jobs import PROGRAMS, Job
from rankdbg.types import Rank
from rosters import all_wait, kinds, numbers
from waiting import PATIENCE

WAITING = PROGRAMS / "run_waiting.py"
LAUNCH = [sys.executable, PROGRAMS / "run_launcher.py"]


def states(ranks: list[Rank]) -> set[tuple[int | None, int, str]]:
    return {(rank.number, rank.pid, rank.state) for rank in ranks}


def test_restarted_rank(job: Job) -> None:
    """A killed rank that was started again is the new process; the dead one is its first
    generation."""
    job.start(*LAUNCH, 3, sys.executable, WAITING, env={"AGAIN": "1"})
    before = {rank.number: rank.pid for rank in job.wait_for(all_wait(3))}
    os.kill(before[1], signal.SIGKILL)

    def restarted(ranks: list[Rank]) -> bool:
        new = {rank.number: rank.pid for rank in ranks}.get(1, before[1])
        wanted = {(0, before[0], "running"), (1, new, "running"), (2, before[2], "running")}
        return all_wait(3)(ranks) and new != before[1] and states(ranks) == wanted

    job.wait_for(restarted)
    (first,) = job.json("ps", "gen=1,1")["ranks"]
    assert (first["pid"], first["state"]) == (before[1], "gone")


def test_killed_rank(job: Job) -> None:
    """A killed rank is gone while the others live; with the job its files go too."""
    launcher = job.start(*LAUNCH, 3, sys.executable, WAITING)
    pids = {rank.number: rank.pid for rank in job.wait_for(all_wait(3))}
    os.kill(pids[1], signal.SIGKILL)
    wanted = {(0, pids[0], "running"), (1, pids[1], "gone"), (2, pids[2], "running")}
    job.wait_for(lambda ranks: states(ranks) == wanted)
    assert (job.directory / f"{pids[1]}.json").exists()
    os.killpg(launcher.pid, signal.SIGKILL)
    launcher.wait(PATIENCE)
    job.wait_for(lambda ranks: ranks == [])
    assert list(job.directory.iterdir()) == []


@pytest.mark.parametrize("agent", [True, False], ids=["agents", "bare"])
def test_ranks_that_outlive_their_launcher(job: Job, agent: bool) -> None:
    """Only the launcher is killed, and the job is started again under its name: its ranks are the
    new ones, and ps names the others as an older generation that still runs."""
    launcher = job.start_ranks("waits", "waits", agent=agent)
    job.wait_for(lambda ranks: numbers(ranks) == [0, 1])
    before = {rank.pid for rank in job.ranks()}
    launcher.kill()
    launcher.wait(PATIENCE)
    job.start_ranks("waits", "waits", agent=agent)

    def is_new(ranks: list[Rank]) -> bool:
        return numbers(ranks) == [0, 1] and before.isdisjoint(rank.pid for rank in ranks)

    job.wait_for(is_new)
    older = job.json("ps", "gen=1")["ranks"]
    assert {rank["pid"] for rank in older} == before
    assert "0-1, gen=1 still run, of an older generation" in " ".join(job.cli("ps").stdout.split())


def test_ranks_that_outlive_two_launchers(job: Job) -> None:
    """As often as one looks, and also when a third launcher has been killed: its ranks are the job."""
    generations: list[set[int]] = []
    for _ in range(3):
        seen = {pid for pids in generations for pid in pids}
        launcher = job.start_ranks("waits", "waits")
        ranks = job.wait_for(
            lambda ranks, seen=seen: (
                numbers(ranks) == [0, 1] and seen.isdisjoint(rank.pid for rank in ranks)
            )
        )
        generations.append({rank.pid for rank in ranks})
        launcher.kill()
        launcher.wait(PATIENCE)
    for _ in range(3):
        for generation, pids in enumerate(generations, 1):
            ranks = job.json("ps", f"gen={generation}")["ranks"]
            assert {rank["pid"] for rank in ranks} == pids
        assert {rank["pid"] for rank in job.json("ps")["ranks"]} == generations[-1]


def test_killed_worker_without_numbers(job: Job) -> None:
    """The death of a worker does not change the numbers of the others."""
    job.start(sys.executable, PROGRAMS / "run_children.py", "fork", "by_nothing", 3)
    pids = {rank.number: rank.pid for rank in job.wait_for(all_wait(3))}
    os.kill(pids[0], signal.SIGKILL)
    ranks = job.wait_for(
        lambda ranks: "running" not in [r.state for r in ranks if r.pid == pids[0]]
    )
    assert {rank.number: rank.pid for rank in ranks} == pids


def test_two_jobs(job: Job, tmp_path: Path) -> None:
    """Two jobs with the same rank numbers stay two jobs."""
    other = Job(f"{job.name}-other", tmp_path)
    try:
        job.start(*LAUNCH, 2, sys.executable, WAITING, "first")
        other.start(*LAUNCH, 2, sys.executable, WAITING, "second")
        first, second = job.wait_for(all_wait(2)), other.wait_for(all_wait(2))
    finally:
        other.end()
    assert numbers(first) == numbers(second) == [0, 1]
    assert {rank.command[-1] for rank in first} == {"first"}
    assert {rank.command[-1] for rank in second} == {"second"}


@pytest.mark.parametrize("way", ["option", "variable"])
def test_role(job: Job, way: str) -> None:
    """--role and RANKDBG_ROLE name the role of every rank."""
    options = ("--role", "rollout") if way == "option" else ()
    variables = {"RANKDBG_ROLE": "rollout"} if way == "variable" else {}
    job.start(*LAUNCH, 2, sys.executable, WAITING, options=options, env=variables)
    ranks = job.wait_for(all_wait(2))
    assert [rank.role for rank in ranks] == ["rollout", "rollout"]


def test_several_runs_in_one_job(job: Job) -> None:
    """Several rankdbg run with one --job are one job; roles keep equal numbers apart."""
    for role in ("trainer", "rollout"):
        job.start(*LAUNCH, 2, sys.executable, WAITING, options=("--role", role))
    ranks = job.wait_for(all_wait(4))
    assert sorted((rank.role, rank.number) for rank in ranks) == [
        ("rollout", 0),
        ("rollout", 1),
        ("trainer", 0),
        ("trainer", 1),
    ]


@pytest.mark.parametrize(
    ("mesh", "coordinates"),
    [
        ("dp=2,tp=2", [{"dp": 0, "tp": 0}, {"dp": 0, "tp": 1}, {"dp": 1, "tp": 0}]),
        ("tp=2", [{"tp": 0}, {"tp": 1}, {}]),
    ],
    ids=["larger", "smaller"],
)
def test_mesh_that_does_not_fit(job: Job, mesh: str, coordinates: list[dict[str, int]]) -> None:
    """A mesh of another size than the world: ranks inside it have coordinates, others none."""
    job.start(*LAUNCH, 3, sys.executable, WAITING, options=("--mesh", mesh))
    ranks = job.wait_for(all_wait(3))
    assert [
        dict(rank.coordinates) for rank in sorted(ranks, key=lambda rank: rank.number or 0)
    ] == coordinates


def test_everything_unfolds(job: Job) -> None:
    """ps leaves the launcher out, ps --all names it as one."""
    launcher = job.start(*LAUNCH, 2, sys.executable, WAITING)
    ranks = job.wait_for(all_wait(2))
    assert kinds(ranks) == {"rank": 2}
    assert str(launcher.pid) not in job.cli("ps").stdout
    (line,) = [line for line in job.cli("ps", "--all").stdout.splitlines() if "(launcher)" in line]
    assert str(launcher.pid) in line.split()
