"""--patience: ranks and nodes that are slower than usual."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from jobs import PROGRAMS, Job
from rankdbg.clusters import Options, ssh
from rankdbg.errors import NodeFailed, RankdbgError
from rankdbg.session import Session
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


SLOW_SSH = """#!/bin/sh
echo "$@" > {said}
sleep 2
for last; do :; done
exec sh -c "$last"
"""


def test_a_node_that_is_reached_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ssh's own limit, too."""
    said = tmp_path / "said"
    program = tmp_path / "ssh"
    program.write_text(SLOW_SSH.format(said=said))
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("RANKDBG_DIR", str(tmp_path / "agents"))
    monkeypatch.setattr(ssh, "CONNECT_SECONDS", 1.0)
    with Session("ssh:far") as session, pytest.raises(NodeFailed, match="no response within 1 s"):
        session.roster()
    assert "ConnectTimeout=10 " in said.read_text()
    with Session("ssh:far", options=Options(patience=60)) as session:
        found = session.check()["far"]
        assert not isinstance(found, RankdbgError), found
    assert "ConnectTimeout=600 " in said.read_text()
