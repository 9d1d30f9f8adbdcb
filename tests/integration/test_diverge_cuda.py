"""Replicas of a small transformer on a real GPU: a flipped bit, a kernel that computes wrongly, nan."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from diverging import diverge, reached, start, wait_until_odd
from jobs import PROGRAMS, Job
from rankdbg.node.machine.gpus import Gpus
from stopping import Stops
from waiting import wait_for

HERE = Gpus().look(time.monotonic() + 10)
PROGRAM = PROGRAMS / "transformer_cuda.py"

pytestmark = [
    pytest.mark.skipif(not HERE["gpus"], reason=f"no GPU on this machine: {HERE['why']}"),
    pytest.mark.slow,
]


def test_a_transformer_on_a_gpu(job: Job, tmp_path: Path) -> None:
    """Nothing is reported before; then the tensor and the rank, the operator with the GPU, and the
    module in which nan came up."""
    start(job, PROGRAM, 3, tmp_path)
    status, found = diverge(job, "--every", "1", "--first")
    assert (status, found["differences"]) == (0, [])
    assert found["first"]["modules"]["compared"] > 30
    assert (found["first"]["operator"] or {"corrupt": ""})["corrupt"] == ""

    (tmp_path / "corrupt").touch()
    first = wait_until_odd(job)
    assert first["modules"]["module"] == "blocks.0.mlp.1"
    assert first["operator"]["name"] == "aten.gelu.default"
    assert (first["operator"]["corrupt"], first["operator"]["repeats"]) == ("1", True)
    assert "silent data corruption. It ran on " in first["operator"]["text"]
    assert "GPU-" in first["operator"]["text"]
    (tmp_path / "corrupt").unlink()

    (tmp_path / "flip").touch()
    wait_for((tmp_path / "flipped").exists)
    flipped = int((tmp_path / "flipped").read_text())
    reached(job, flipped + 1, 3)
    status, found = diverge(job)
    assert status == 1
    (difference,) = found["differences"]
    assert (difference["name"], difference["odd"]) == ("blocks.1.norm.weight", "1")
    assert difference["since"] == {"step": flipped + 1, "equal_at": flipped, "at_least": False}

    assert job.json("nan", "--arm")["armed"] == "0-2"
    (tmp_path / "nan").touch()
    (stop,) = Stops(job).wait(1)
    assert (stop["rank"], stop["kind"]) == (2, "nan")
    result = job.cli("nan", "--json")
    assert result.returncode == 1, result.stderr
    value = json.loads(result.stdout)["first"]
    assert (value["rank"], value["module"], value["type"]) == ("2", "mean", "Mean")
