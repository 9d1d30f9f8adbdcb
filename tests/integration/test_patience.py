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

# Its stacks are long: to tell them takes more than the moment that a process gets at once.
MANY_CALLS = """
import threading, time

def trains(depth):
    if depth:
        trains(depth - 1)
    while True:
        time.sleep(3600)

for _ in range(100):
    threading.Thread(target=trains, args=(300,), daemon=True).start()
trains(300)
"""


def test_texts_that_take_their_time(job: Job, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(SLOW_TEXT)
    job.start(sys.executable, PROGRAMS / "launch.py", 1, program)
    job.wait_at("trains")
    assert "batch 17" not in job.cli("stacks", "--samples", 1, "--locals").stdout
    assert "batch 17" in job.cli("stacks", "--samples", 1, "--locals", "--patience", 20).stdout
    patient = job.cli("stacks", "--samples", 1, "--locals", env={"RANKDBG_PATIENCE": "20"})
    assert "batch 17" in patient.stdout


def test_a_rank_without_cpu(job: Job, tmp_path: Path) -> None:
    """It answers, seconds later, and is not read from outside instead."""
    program = tmp_path / "train.py"
    program.write_text(MANY_CALLS)
    job.start(sys.executable, PROGRAMS / "launch.py", 2, program)
    slow, _ = job.wait_at("trains", "trains")
    with another_at_work() as cpu:
        only_when_idle(slow.pid, cpu)
        found = job.json("stacks", "--threads", "all", "--patience", 50, "--timeout", 240)
    assert found["sources"] == {"0": "agent", "1": "agent"}
