"""Replicas of real jobs that are equal, or not."""

from __future__ import annotations

from pathlib import Path

import pytest

import rankdbg as rankdbg_module
from agents import Programs
from diverging import diverge, reached, start, wait_until_odd
from jobs import PROGRAMS, Job, rankdbg
from rankdbg.errors import BadInput
from waiting import wait_for

PROGRAM = PROGRAMS / "replicas_torch.py"

pytestmark = [pytest.mark.slow]


def test_a_bit_of_one_rank(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tensor, the rank, how far, and exactly since when; then an operator that computes wrongly. All
    equal before, and a kernel that is not deterministic is no fault."""
    start(job, PROGRAM, 3, "asked", tmp_path)
    status, found = diverge(job, "--every", "1", "--first")
    assert (status, found["differences"], found["every"]) == (0, [], 1)
    modules = found["first"]["modules"]
    # Forward 6 modules, 2 blocks and the model; backward 3 nodes of each block at least.
    assert modules["compared"] == modules["calls"] >= 15
    assert (modules["module"], modules["again"], found["first"]["operator"]) == (None, None, None)

    (tmp_path / "noise").touch()
    found = wait_until_odd(job)
    assert found["operator"]["name"] == "aten.gelu.default"
    assert (found["operator"]["repeats"], found["operator"]["corrupt"]) == (False, "")
    assert "not deterministic, which is not a fault" in found["operator"]["text"]
    (tmp_path / "noise").unlink()

    (tmp_path / "flip").touch()
    wait_for((tmp_path / "flipped").exists)
    flipped = int((tmp_path / "flipped").read_text())
    reached(job, flipped + 1, 3)
    status, found = diverge(job, "--optimizer", "--first")
    assert status == 1, found
    assert found["step"] is not None
    (difference,) = found["differences"]
    assert (difference["name"], difference["odd"]) == ("1.norm.weight", "1")
    exactly = {"step": flipped + 1, "equal_at": flipped, "at_least": False}
    assert difference["since"] == found["first"]["since"] == exactly
    usual, odd = difference["groups"]
    assert usual["norm"] != odd["norm"]
    assert 0.01 < odd["max_difference"] < 0.5  # a bit of 2**-3 or 2**-4 in a weight near 1
    assert not odd["within_rounding"] and not odd["partial"]
    (cause,) = found["first"]["causes"]
    assert (cause["kind"], cause["ranks"]) == ("outside", "1")
    assert found["first"]["modules"]["module"] is None

    monkeypatch.setenv("RANKDBG_DIR", str(job.directory))
    with rankdbg_module.connect(job=job.name) as connection:
        told = connection.diverge(every=0)
        with pytest.raises(BadInput, match="unknown kind of tensor weights"):
            connection.diverge(kinds=["weights"])
    assert "the first is 1.norm.weight: rank 1" in repr(told)
    assert "differs" in told._repr_html_()
    assert len(told.records()) == 2

    (tmp_path / "corrupt").touch()
    found = wait_until_odd(job)
    assert found["modules"]["module"] == "0.gelu"
    assert (found["operator"]["corrupt"], found["operator"]["repeats"]) == ("1", True)
    page = tmp_path / "diverge.html"
    text = job.cli("diverge", "--first", "--html", page).stdout
    assert '"name":"1.norm.weight","columns"' in page.read_text()
    assert "the first is 1.norm.weight: rank 1" in text
    assert "ranks 0,2" in text
    assert "differs, max |Δ| 0." in text
    assert "no hashes are kept" in text
    words = " ".join(text.split())
    odd_output = "GELU 0.gelu returns different outputs for equal inputs and parameters in rank 1"
    assert f"{odd_output}, in two steps." in words
    assert "when it is repeated: silent data corruption. It ran on the processor of host" in words


def test_equal_replicas(job: Job) -> None:
    """Of different data, with dropout; batch norm's buffers are equal after DDP's next broadcast."""
    start(job, PROGRAM, 3, "same")
    status, found = diverge(job, "--optimizer", "--gradients", "--random", "--first")
    assert (status, found["differences"]) == (0, [])
    assert found["tensors"] > 20
    assert found["resynced"] == 3
    assert [note["equal"] for note in found["random"]] == [True]
    assert found["first"]["causes"] == []
    assert found["first"]["modules"]["compared"] == 0
    wrong = job.cli("diverge", "--equal-across", "tp")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no dimension tp in this job" in wrong.stderr


def test_causes(job: Job) -> None:
    """Each of its own tensor. A difference within rounding is not a fault."""
    start(job, PROGRAM, 3, "faults")
    status, found = diverge(job, "--first")
    assert status == 1
    causes = {each["name"]: (each["kind"], each["ranks"]) for each in found["first"]["causes"]}
    assert causes == {
        "0.norm.weight": ("gradient", "0-2"),
        "1.norm.bias": ("outside", "0"),
        "wide.weight": ("rounding", "2"),
        "head.bias": ("left out", "2"),
        "batch_norm.running_mean": ("buffer", "0-2"),
        "batch_norm.running_var": ("buffer", "0-2"),
    }
    differences = {each["name"]: each for each in found["differences"]}
    assert {name for name, each in differences.items() if each["within_rounding"]} == {
        "wide.weight"
    }
    assert 0 < differences["wide.weight"]["groups"][1]["max_difference"] < 1e-6


@pytest.mark.extra
def test_shards_and_replicas_of_fsdp(job: Job, tmp_path: Path) -> None:
    """On a mesh of 2 x 2: shards differ and are not reported, their replicas must not."""
    start(job, PROGRAM, 4, "fsdp", tmp_path)
    status, found = diverge(job, "--first")
    assert (status, found["differences"]) == (0, [])
    assert found["first"]["modules"]["module"] is None
    (tmp_path / "flip").touch()
    wait_for((tmp_path / "flipped").exists)
    reached(job, int((tmp_path / "flipped").read_text()) + 1, 4)
    status, found = diverge(job)
    assert status == 1, found
    (difference,) = found["differences"]
    assert difference["name"] == "1.norm.weight"
    assert {group["ranks"] for group in difference["groups"]} == {"1", "3"}


def test_a_program_without_torch(programs: Programs) -> None:
    process = programs.start(
        "import threading; print(1, flush=True); threading.Event().wait()",
        env={"RANK": "0", "RANKDBG_JOB": "plain"},
    )
    assert process.said == "1"
    words = ("diverge", "--job", "plain")
    result = rankdbg(*words, env=programs.environment())
    assert (result.returncode, result.stdout) == (0, "rank 0: no model of torch was found.\n")
    result = rankdbg(*words, "--every", "10", env=programs.environment())
    assert (result.returncode, result.stdout) == (2, "")
    assert "rank 0 reports no steps, and hashes are kept by step" in result.stderr
    result = rankdbg(*words, "--every", "-1", env=programs.environment())
    assert result.returncode == 2
    assert "expected a whole number from 0" in result.stderr
