"""--patience: ranks and nodes that are slower than usual."""

from __future__ import annotations

import sys
from pathlib import Path

from jobs import PROGRAMS, Job
from starving import another_at_work, only_when_idle

SLOW_TEXT = """
import time

class Batch:
    def __repr__(self):
        time.sleep(2)
        return "batch 17"

def trains():
    batch = Batch()
    while True:
        time.sleep(0.1)

trains()
"""


def test_texts_that_take_their_time(job: Job, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(SLOW_TEXT)
    job.start(sys.executable, PROGRAMS / "launch.py", 1, program)
    job.wait_at("trains")
    assert "batch 17" not in job.cli("stacks", "--locals").stdout
    assert "batch 17" in job.cli("stacks", "--locals", "--patience", 20).stdout
    patient = job.cli("stacks", "--locals", env={"RANKDBG_PATIENCE": "20"})
    assert "batch 17" in patient.stdout


def test_a_rank_without_cpu(job: Job) -> None:
    """It answers, some seconds later, and is not read from outside instead."""
    job.start_ranks("train", "train")
    slow, _ = job.wait_at("train", "train")
    with another_at_work() as cpu:
        only_when_idle(slow.pid, cpu)
        found = job.json("stacks", "--patience", 20, "--timeout", 120)
    assert found["sources"] == {"0": "agent", "1": "agent"}
