"""rankdbg profile of a rank that computes on a GPU."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from jobs import PROGRAMS, Job
from waiting import wait_for

if not Path("/dev/nvidiactl").exists():
    pytest.skip("there is no GPU", allow_module_level=True)
torch = pytest.importorskip("torch", reason="there is no torch")
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


def test_kernels_and_memory(job: Job, tmp_path: Path) -> None:
    """Kernels stand on the time line beside the operators; memory has the lines that hold it."""
    job.start(sys.executable, PROGRAMS / "profiled_cuda.py")
    wait_for(lambda: any(r.where and r.where.function == "step" for r in job.ranks()), "steps")
    options = ("profile", "--seconds", "1", "--kind")
    traced = job.json(*options, "torch", "--output", tmp_path / "torch")
    assert any(row["where"]["file"] == "GPU 0" for row in traced["rows"])
    with gzip.open(tmp_path / "torch/trace.json.gz", "rt") as file:
        kinds = {event.get("cat") for event in json.load(file)["traceEvents"]}
    assert {"cpu_op", "kernel"} <= kinds
    held = job.json(*options, "memory", "--output", tmp_path / "memory")
    assert "hoard" in {row["where"]["function"] for row in held["rows"]}
    assert "snapshot" in held["ranks"][0]["files"]
