"""rankdbg run with the launchers of distributed jobs."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pytest

from jobs import PROGRAMS, Job
from rankdbg.types import Rank
from rosters import all_wait, has_kinds, kinds, numbers, of_kind
from waiting import PATIENCE, wait_for

TORCHRUN = [Path(sys.executable).parent / "torchrun"]
TORCH_MODULE = [sys.executable, "-m", "torch.distributed.run"]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
WAITING = PROGRAMS / "run_waiting.py"

needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs openmpi-bin")


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [TORCHRUN, pytest.param(TORCH_MODULE, marks=pytest.mark.extra)],
    ids=["torchrun", "module"],
)
def test_torchrun(job: Job, launcher: list[object]) -> None:
    """torchrun's workers are the ranks, with torch's numbers; torchrun is none."""
    options = ["--standalone", "--nproc-per-node", 2]
    process = job.start(*launcher, *options, PROGRAMS / "run_torch.py")
    assert process.stdout.readline() == "ready\n"
    ranks = job.wait_for(all_wait(2))
    assert {(rank.number, rank.local_rank, rank.world) for rank in ranks} == {(0, 0, 2), (1, 1, 2)}
    all_ranks = job.ranks(everything=True)
    assert kinds(all_ranks) == {"rank": 2, "launcher": 1}
    assert of_kind(all_ranks, "launcher")[0].pid == process.pid
    process.send_signal(signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "helpers"), [("fork", 0), pytest.param("spawn", 2, marks=pytest.mark.extra)]
)
def test_data_loader_workers(job: Job, method: str, helpers: int) -> None:
    """Data loader workers are children of their rank, resource trackers helpers."""
    options = ["--standalone", "--nproc-per-node", 2]
    process = job.start(*TORCHRUN, *options, PROGRAMS / "run_torch.py", method)
    assert process.stdout.readline() == "ready\n"
    beside = {"launcher": 1, "child": 4} | ({"helper": helpers} if helpers else {})
    ranks = job.wait_for(has_kinds(2, **beside), everything=True)
    assert numbers(ranks) == [0, 1]
    process.send_signal(signal.SIGTERM)


@needs_mpirun
def test_mpirun(job: Job) -> None:
    """mpirun's ranks have Open MPI's numbers."""
    process = job.start(*MPIRUN, "-n", 3, sys.executable, WAITING)
    ranks = job.wait_for(all_wait(3))
    assert {(rank.number, rank.world) for rank in ranks} == {(0, 3), (1, 3), (2, 3)}
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE)


@needs_mpirun
def test_mpirun_in_a_batch_script(job: Job) -> None:
    """mpirun in a Slurm batch script hands on the script's SLURM_PROCID; it is not the number."""
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}
    # (Without --mca it would want to start its daemons with srun.)
    process = job.start(
        *MPIRUN, "--mca", "plm", "isolated", "--mca", "ras", "^slurm",
        "-n", 2, sys.executable, WAITING, env=slurm,
    )  # fmt: skip
    ranks = job.wait_for(all_wait(2))
    assert numbers(ranks) == [0, 1]
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE)


@needs_mpirun
def test_script_with_a_helper(job: Job, tmp_path: Path) -> None:
    """Of two Pythons that a rank's script starts, the one that has loaded more is the rank."""
    script = tmp_path / "rank.sh"
    script.write_text(
        f"{sys.executable} {WAITING} &\n"
        f'{sys.executable} -c \'import sys; sys.path.insert(0, "{PROGRAMS}")\n'
        "import decimal, json, email.message, run_waiting; run_waiting.waits()'\n"
    )
    process = job.start(*MPIRUN, "-n", 3, "sh", script)

    def all_six_wait(ranks: list[Rank]) -> bool:
        there = has_kinds(3, helper=3)(ranks)
        return there and all(r.where and r.where.function == "waits" for r in ranks)

    both = job.wait_for(all_six_wait, everything=True)
    assert numbers(both) == [0, 1, 2]
    assert all("-c" in rank.command for rank in of_kind(both, "rank"))
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE)


def test_launcher_under_slurm(job: Job) -> None:
    """A task of Slurm that starts workers with RANK is a launcher; the workers are ranks."""
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}
    launcher = PROGRAMS / "run_launcher.py"
    process = job.start(sys.executable, launcher, 3, sys.executable, WAITING, env=slurm)
    ranks = job.wait_for(has_kinds(3, launcher=1), everything=True)
    assert numbers(ranks) == [0, 1, 2]
    assert of_kind(ranks, "launcher")[0].pid == process.pid


def test_tasks_of_slurm(job: Job) -> None:
    """Tasks of Slurm that start nothing are the ranks."""
    for task in range(2):
        job.start(sys.executable, WAITING, env={"SLURM_PROCID": str(task), "SLURM_NTASKS": "2"})
    ranks = job.wait_for(all_wait(2))
    assert {(rank.number, rank.world) for rank in ranks} == {(0, 2), (1, 2)}


def test_shell_script(job: Job, tmp_path: Path) -> None:
    """Of a script's Pythons those that still run are there, in the order of their start."""
    script = tmp_path / "start.sh"
    script.write_text(
        f"{sys.executable} -c pass\n"
        f"{sys.executable} {WAITING} background &\n"
        f"{sys.executable} -c pass\n"
        f"{sys.executable} {WAITING} foreground\n"
    )
    job.start("sh", script)
    ranks = job.wait_for(all_wait(2))
    assert {rank.number: rank.command[-1] for rank in ranks} == {0: "background", 1: "foreground"}


def test_empty_environment(job: Job, tmp_path: Path) -> None:
    """A Python that is started with an empty environment is no part of the job."""
    script = tmp_path / "start.sh"
    script.write_text(
        f"env -i {sys.executable} {WAITING} outside &\n{sys.executable} {WAITING} inside\n"
    )
    job.start("sh", script)
    job.wait_for(all_wait(1))
    (rank,) = job.ranks(everything=True)
    assert rank.command[-1] == "inside"


def test_python_of_a_rank(job: Job) -> None:
    """A Python that a rank has started inherits its RANK, and is its child."""
    job.start(sys.executable, PROGRAMS / "run_subprocess.py", env={"RANK": "2"})
    ranks = job.wait_for(has_kinds(1, child=1), everything=True)
    assert numbers(ranks) == [2]
    assert "run_subprocess.py" in of_kind(ranks, "rank")[0].command[-1]


def test_two_launches_in_one_job(job: Job, tmp_path: Path) -> None:
    """Two launchers that one script starts have a rank 0 and a rank 1 each: all four are there."""
    launch = f"{sys.executable} {PROGRAMS / 'run_launcher.py'} 2 {sys.executable} {WAITING}"
    script = tmp_path / "both.sh"
    script.write_text(f"{launch} &\n{launch}\n")
    job.start("sh", script)
    ranks = job.wait_for(has_kinds(4, launcher=2), everything=True)
    assert numbers(ranks) == [0, 0, 1, 1]


def test_run_inside_run(job: Job, tmp_path: Path) -> None:
    """A script under `rankdbg run` that starts two others: their jobs are inside the script's, of
    which no rank is above them."""
    script = tmp_path / "both.sh"
    run = f"{sys.executable} -m rankdbg run --job {job.name}-%s -- {sys.executable} {WAITING}"
    script.write_text(f"{run % 'train'} &\n{run % 'eval'}\n")
    job.start("sh", script)
    around = {f"{job.name}-train": job.name, f"{job.name}-eval": job.name}

    def inside() -> dict[str, str]:
        with job.session() as session:
            found = session.roster(where=False).inside
        return {inner: outer for inner, outer in found.items() if inner in around}

    wait_for(lambda: inside() == around, inside)
