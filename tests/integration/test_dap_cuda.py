"""Tensors on a GPU, in an editor."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from editor import DapServer, Editor, variables
from jobs import PROGRAMS, Job
from waiting import PATIENCE

pytest.importorskip("debugpy", reason="needs debugpy")

CUDA = PROGRAMS / "dap_cuda.py"


if not Path("/dev/nvidiactl").exists():
    pytest.skip("there is no GPU", allow_module_level=True)
torch = pytest.importorskip("torch", reason="there is no torch")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_tensor_on_a_gpu_shows_its_figures_alone(job: Job) -> None:
    """Shape, dtype, device, min, mean and max; none of its million values."""
    job.start(sys.executable, CUDA, env={"RANK": "0", "WORLD_SIZE": "1"})
    job.wait_for(
        lambda ranks: [r.where.function for r in ranks if r.where] == ["looks"], patience=PATIENCE
    )
    lines = CUDA.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "# with tensors" in text)
    with DapServer(job) as server:
        editor = Editor(server)
        editor.break_at(CUDA, line)
        session = editor.attach_all(1)[0]
        shown = variables(session, session.event("stopped")["threadId"])
        assert shown["ones"] == "Tensor 1000×1000 float32 cuda:0 min 1 mean 1 max 1"
        assert shown["loss"] == "Tensor 0.25 float32 cuda:0"
        editor.leave()
