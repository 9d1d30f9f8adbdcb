"""Labels that a program's own frameworks know: ranks and coordinates without --mesh."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from jobs import PROGRAMS, TORCHRUN, Job, free_port, meeting
from rankdbg.types import Rank
from tiers import also_without
from waiting import TEST_SECONDS, wait_for

TORCH = PROGRAMS / "labels_torch.py"


def coordinates(ranks: list[Rank]) -> dict[int | None, dict[str, int]]:
    return {rank.number: dict(rank.coordinates) for rank in ranks}


def wait_for_coordinates(job: Job, expected: dict[int, dict[str, int]]) -> None:
    job.wait_for(lambda ranks: coordinates(ranks) == expected)


def wait_until_all_wait(job: Job, count: int) -> None:
    job.wait_for(
        lambda ranks: sum(bool(r.where) and r.where.function == "waits" for r in ranks) == count,
    )


def test_device_mesh(job: Job) -> None:
    """The dimensions of a DeviceMesh select ranks, without --mesh; collectives calls their groups
    by the same names."""
    job.start_torch(4, TORCH, "hangs_in_tp", env={"TORCH_FR_BUFFER_SIZE": "2000"})
    wait_for_coordinates(job, {n: {"dp": n // 2, "tp": n % 2} for n in range(4)})
    assert [rank["rank"] for rank in job.json("ps", "tp=0")["ranks"]] == [0, 2]
    assert [rank["rank"] for rank in job.json("ps", "dp=1,tp=1")["ranks"]] == [3]
    sentence = "Rank 3 has not entered all_reduce #1 of group 4 (tp)"
    shown = wait_for(lambda: sentence in (text := job.cli("collectives").stdout) and text)
    assert "mesh_tp" not in shown


def test_dimension_with_all_ranks(job: Job) -> None:
    """A dimension that has all ranks has no group of its own, and still its name."""
    job.start_torch(2, TORCH, "whole")
    wait_for_coordinates(job, {n: {"dp": 0, "tp": n} for n in range(2)})


def test_flattened_mesh(job: Job) -> None:
    """A dimension that was made of others is there too; those of a mesh without names are not."""
    job.start_torch(4, TORCH, "flattened")
    places = {n: {"replicate": n // 2, "shard": n % 2, "tp": 0, "fsdp": n % 2} for n in range(4)}
    wait_for_coordinates(job, places)


def test_mesh_without_names(job: Job) -> None:
    """A mesh without names gives no coordinates: the ranks have those of their machine."""
    job.start_torch(2, TORCH, "nameless")
    wait_until_all_wait(job, 2)
    assert coordinates(job.ranks()) == {n: {"hosts": 0, "gpus": n} for n in range(2)}


def test_dtensor(job: Job) -> None:
    """A DTensor is shown with the shape and the figures of its local part, and its placements. A
    number that is a part of a sum is said to be one."""
    job.start_torch(2, TORCH, "tensors")
    wait_until_all_wait(job, 2)
    described = {
        name: job.json("ask", "all", f"_['{name}']")["groups"]
        for name in ("sharded", "summed", "loss", "same")
    }
    places = "(dp:Shard(0) tp:Replicate)"
    assert [group["value"] for group in described["sharded"]] == [
        f"8×4 float32 cpu, local 4×4: min 0 mean 7.5 max 15 {places}",
        f"8×4 float32 cpu, local 4×4: min 16 mean 23.5 max 31 {places}",
    ]
    assert described["sharded"][0]["local_shape"] == [4, 4]
    assert described["summed"][0]["placements"] == {"dp": "Partial(sum)", "tp": "Replicate"}
    assert described["loss"][0]["value"] == "0.5 local (dp:Partial(sum) tp:Replicate)"
    assert described["same"][0]["number"] == 0.5


@pytest.mark.slow
@also_without
def test_lightning(job: Job, tmp_path: Path, agent: bool) -> None:
    """Lightning's rank 0, which has started rank 1, is a rank, also without an agent."""
    program = PROGRAMS / "labels_lightning.py"
    job.start(sys.executable, program, tmp_path, agent=agent, env=meeting())
    ranks = job.wait_for(lambda ranks: {r.number for r in ranks} == {0, 1}, patience=TEST_SECONDS)
    assert [rank.world for rank in ranks] == [2, 2]
    assert len({rank.job for rank in ranks}) == 1


def without(module: str) -> pytest.MarkDecorator:
    """They are too large to be installed for one test."""
    reason = f"{module} is not among the test dependencies"
    return pytest.mark.skipif(find_spec(module) is None, reason=reason)


@pytest.mark.slow
@without("jax")
def test_jax(job: Job) -> None:
    """Ranks of JAX have its numbers, though they started in another order, and places in its mesh
    where all their devices have the same."""
    environ = {"JAX_PLATFORMS": "cpu"}
    job.start(sys.executable, PROGRAMS / "labels_jax.py", 2, free_port(), env=environ)
    expected = {0: {"data": 0}, 1: {"data": 1}}
    ranks = job.wait_for(lambda ranks: coordinates(ranks) == expected, patience=TEST_SECONDS)
    assert {rank.number: int(rank.command[-1]) for rank in ranks} == {0: 0, 1: 1}


@pytest.mark.slow
@pytest.mark.timeout(2 * TEST_SECONDS)
@without("megatron")
def test_megatron(job: Job) -> None:
    """Megatron's groups give the coordinates, under torchrun."""
    command = [*TORCHRUN, 2, PROGRAMS / "labels_megatron.py"]
    job.start(*command, env={"OMP_NUM_THREADS": "1"})
    expected = {n: {"pp": 0, "dp": 0, "cp": 0, "ep": 0, "tp": n} for n in range(2)}
    job.wait_for(lambda ranks: coordinates(ranks) == expected, patience=TEST_SECONDS)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs openmpi-bin")
@pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py")
def test_mpi(job: Job) -> None:
    """A rank of MPI without its variables has its number in COMM_WORLD."""
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", 2, sys.executable]
    job.start(*words, PROGRAMS / "labels_mpi.py")
    job.wait_for(lambda ranks: {(r.number, r.world) for r in ranks} == {(0, 2), (1, 2)})
    wait_until_all_wait(job, 2)  # MPI knows its ranks before the program has asked it
    groups = job.json("ask", "all", "rank")["groups"]
    assert {group["ranks"]: group["value"] for group in groups} == {"0": "0", "1": "1"}
