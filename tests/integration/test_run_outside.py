"""Jobs that were not started with rankdbg run: known by their environment and their titles."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobs import PROGRAMS, Job
from rosters import all_wait, has_kinds, numbers, of_kind
from waiting import PATIENCE

WAITING = PROGRAMS / "run_waiting.py"
LAUNCHER = PROGRAMS / "run_launcher.py"

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(job: Job) -> Iterator[Start]:
    """Starts a command without rankdbg. RANKDBG_JOB alone starts no agent; it keeps jobs apart."""
    with contextlib.ExitStack() as stack:

        def start(*command: object, **variables: str) -> subprocess.Popen[bytes]:
            environment = {**job.environment, "RANKDBG_JOB": job.name, **variables}
            process = subprocess.Popen(
                list(map(str, command)),
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.callback(end, process)
            return process

        yield start


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()  # mpirun ends its ranks, which are in groups of their own
    process.wait(PATIENCE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def test_plain_python(job: Job, start: Start) -> None:
    """A Python with RANK is a rank without an agent; its stack is seen from outside."""
    start(sys.executable, LAUNCHER, 2, sys.executable, WAITING)
    ranks = job.wait_for(all_wait(2))
    assert numbers(ranks) == [0, 1]
    assert {(r.state, r.detail) for r in ranks} == {("no agent", "not started under rankdbg run")}
    (group,) = job.json("stacks")["groups"]
    assert group["ranks"] == "0-1"
    assert "waits" in [frame["function"] for frame in group["frames"]]


def test_python_without_a_sign(job: Job, start: Start) -> None:
    """A Python without any variable or title of a rank is nobody's rank."""
    process = start(sys.executable, WAITING)
    start(sys.executable, WAITING, RANK="0")
    job.wait_for(all_wait(1))
    with job.session() as session:
        assert process.pid not in [rank.pid for rank in session.roster().processes]


def test_its_own_job(job: Job, start: Start) -> None:
    """Without a job's name the ranks of one parent are a job, named after their script."""
    parent = start(sys.executable, LAUNCHER, 2, sys.executable, WAITING, RANKDBG_JOB="")
    job.name = f"run_waiting-{parent.pid:x}"
    assert numbers(job.wait_for(all_wait(2))) == [0, 1]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs openmpi-bin")
def test_mpirun_is_one_job(job: Job, start: Start) -> None:
    """What one mpirun has started is one job, though each rank has a shell of its own above it."""
    rank = f"{sys.executable} {WAITING}; true"
    options = ["--allow-run-as-root", "--oversubscribe", "-n", "2"]
    mpirun = start("mpirun", *options, "sh", "-c", rank, RANKDBG_JOB="")
    with job.session() as session:
        names: set[str] = set()
        while not names and mpirun.poll() is None:
            processes = session.roster(where=False).processes
            ours = {p.job for p in processes if str(WAITING) in p.command and p.job[:4] == "mpi-"}
            names = {name for name in ours if _started_by(mpirun.pid, name, processes)}
    (job.name,) = names
    assert numbers(job.wait_for(all_wait(2))) == [0, 1]


def _started_by(pid: int, name: str, processes: Any) -> bool:
    """Whether the job's processes are grandchildren of that process."""
    with contextlib.suppress(OSError):
        for process in (p for p in processes if p.job == name):
            shell = _parent(process.pid)
            if _parent(shell) == pid:
                return True
    return False


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


# --- titles -------------------------------------------------------------------------------


needs_setproctitle = pytest.mark.skipif(
    importlib.util.find_spec("setproctitle") is None, reason="needs setproctitle"
)


def start_titled(start: Start, *trees: Any, **variables: str) -> None:
    # With SPT_NOENV a title leaves the environment as it is: by it jobs are kept apart here.
    variables["SPT_NOENV"] = "1"
    for tree in trees:
        tree = [tree] if isinstance(tree, str) else tree
        start(sys.executable, PROGRAMS / "run_titled.py", json.dumps(tree), **variables)


@needs_setproctitle
def test_sglang(job: Job, start: Start) -> None:
    """sglang's schedulers are ranks with coordinates; its other processes are not."""
    schedulers = [[f"sglang::scheduler_PP{p}_TP{t}"] for p in range(2) for t in range(2)]
    others = [["sglang::detokenizer"], ["sglang::router"]]
    start_titled(start, ["sglang::server", *reversed(schedulers), *others])
    ranks = job.wait_for(has_kinds(4, helper=2, launcher=1), everything=True)
    assert {rank.number: rank.coordinates for rank in of_kind(ranks, "rank")} == {
        0: {"pp": 0, "tp": 0},
        1: {"pp": 0, "tp": 1},
        2: {"pp": 1, "tp": 0},
        3: {"pp": 1, "tp": 1},
    }
    assert {rank.role for rank in of_kind(ranks, "rank")} == {"scheduler"}


@needs_setproctitle
def test_sglang_under_slurm(job: Job, start: Start) -> None:
    """The number that an engine inherited from Slurm is not that of its ranks."""
    schedulers = [["sglang::scheduler_DP0_TP0_EP0"], ["sglang::scheduler_DP0_TP1_EP1"]]
    start_titled(start, ["python -m server", *schedulers], SLURM_PROCID="3", SLURM_NTASKS="8")
    ranks = job.wait_for(has_kinds(2, launcher=1), everything=True)
    assert {rank.number: rank.coordinates for rank in of_kind(ranks, "rank")} == {
        0: {"dp": 0, "tp": 0, "ep": 0},
        1: {"dp": 0, "tp": 1, "ep": 1},
    }


@needs_setproctitle
def test_vllm(job: Job, start: Start) -> None:
    """vLLM's workers are the ranks; EngineCore is left out where workers exist."""
    engines = [
        [f"VLLM::EngineCore_DP{d}", [f"VLLM::Worker_DP{d}_TP0"], [f"VLLM::Worker_DP{d}_TP1"]]
        for d in range(2)
    ]
    start_titled(start, ["VLLM::APIServer", ["VLLM::DPCoordinator"], *engines])
    ranks = job.wait_for(has_kinds(4, launcher=3, helper=1), everything=True)
    workers = sorted(of_kind(ranks, "rank"), key=lambda rank: rank.number or 0)
    assert [(w.coordinates["dp"], w.coordinates["tp"]) for w in workers] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert {worker.role for worker in workers} == {"Worker"}


@needs_setproctitle
def test_vllm_without_workers(job: Job, start: Start) -> None:
    """With one GPU there are no workers, and EngineCore is the rank."""
    start_titled(start, ["VLLM::APIServer", ["VLLM::EngineCore"]])
    (rank,) = job.wait_for(all_wait(1))
    assert (rank.number, rank.role) == (0, "EngineCore")


@needs_setproctitle
def test_ray(job: Job, start: Start) -> None:
    """Ray's actors are ranks with the class as role, numbered class by class; its idle workers
    are not."""
    start_titled(start, "ray::Trainer.step", "ray::Trainer", "ray::Rollout", "ray::IDLE")
    ranks = job.wait_for(has_kinds(3, helper=1), everything=True)
    assert numbers(ranks) == [0, 0, 1]
    roles = [rank.role for rank in of_kind(ranks, "rank")]
    assert sorted(roles) == ["Rollout", "Trainer", "Trainer"]
    assert {row["role"] for row in job.json("ps", "role=Train*")["ranks"]} == {"Trainer"}


@needs_setproctitle
def test_trainer_beside_an_engine(job: Job, start: Start) -> None:
    """In a job with trainers and an engine both are ranks, told apart by their roles."""
    start(sys.executable, LAUNCHER, 2, sys.executable, WAITING)
    start_titled(start, "sglang::scheduler_TP0", "sglang::scheduler_TP1")
    ranks = job.wait_for(all_wait(4))
    assert sorted((rank.role, rank.number) for rank in ranks) == [
        ("", 0),
        ("", 1),
        ("scheduler", 0),
        ("scheduler", 1),
    ]


@needs_setproctitle
def test_titles_count_under_rankdbg_run_too(job: Job) -> None:
    """Engines with an agent have their roles and coordinates from their titles."""
    tree: list[Any] = ["python -m server", ["sglang::scheduler_TP1"], ["sglang::scheduler_TP0"]]
    tree.append(["sglang::detokenizer"])
    job.start(sys.executable, PROGRAMS / "run_titled.py", json.dumps(tree))
    ranks = job.wait_for(lambda ranks: len(ranks) == 2 and all(rank.agent for rank in ranks))
    found = {rank.number: (rank.role, dict(rank.coordinates)) for rank in ranks}
    assert found == {0: ("scheduler", {"tp": 0}), 1: ("scheduler", {"tp": 1})}


@needs_setproctitle
def test_title_over_the_environment(job: Job, start: Start) -> None:
    """A title that has overwritten the environment is enough; the job has the engine's name, and
    belongs to the program that has started it: this one."""
    title = "sglang::scheduler_TP7"
    process = start(sys.executable, PROGRAMS / "run_titled.py", json.dumps([title]))
    job.name = f"sglang-{os.getpid():x}"
    ranks = job.wait_for(lambda ranks: process.pid in [rank.pid for rank in ranks])
    (rank,) = [rank for rank in ranks if rank.pid == process.pid]
    assert (rank.role, rank.coordinates) == ("scheduler", {"tp": 7})


def test_title_as_first_word(job: Job, start: Start) -> None:
    """A title that only replaces the first word of the command line is read as well."""
    command = f"exec -a sglang::scheduler_TP1_PP0 {sys.executable} {WAITING}"
    start("bash", "-c", command)
    (rank,) = job.wait_for(all_wait(1))
    assert (rank.role, rank.coordinates) == ("scheduler", {"tp": 1, "pp": 0})
