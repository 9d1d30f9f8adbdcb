"""rankdbg ps: every rank, its state and where it is."""

from __future__ import annotations

import os
import signal
import sys

from jobs import Job


def test_equal_rows_are_folded(job: Job) -> None:
    """Seven ranks at one place are one row, the eighth is marked."""
    job.start_ranks("waits", "waits", "waits", "waits_elsewhere", options=("--mesh", "dp=2,tp=2"))
    job.wait_at("waits", "waits", "waits", "waits_elsewhere")
    result = job.cli("ps")
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"job {job.name}   4 ranks on 1 node   dp=2 tp=2   for ")
    assert lines[2].split()[:3] == ["0-2", "running", "waits"]
    assert lines[2].split()[3].startswith("behave.py:")
    assert lines[3].split()[:3] == ["3", "running", "waits_elsewhere"]
    assert lines[3].endswith("<- alone here")
    assert result.stderr == ""


def test_json_has_every_label(job: Job) -> None:
    """A row of --json names rank, coordinates, role, host, pid, state and place."""
    job.start_ranks("waits", "waits", options=("--mesh", "tp=2", "--role", "trainer"))
    ranks = job.wait_at("waits", "waits")
    document = job.json("ps", "ranks(1)")
    assert document["schema"] == "rankdbg.ps/1"
    (row,) = document["ranks"]
    assert row["rank"] == 1
    assert row["coordinates"] == {"tp": 1}
    assert row["role"] == "trainer"
    assert row["host"] == os.uname().nodename
    assert row["pid"] == ranks[1].pid
    assert row["state"] == "running"
    assert row["where"]["function"] == "waits"
    assert row["where"]["file"].endswith("/tests/programs/behave.py")


def test_states(job: Job, tmp_path) -> None:
    """SIGSTOP, state D, a held GIL and a killed rank each have their state and reason."""
    job.start_ranks(
        "waits", "in_state_d", "holds_gil", "waits", "waits", env={"BEHAVE_SCRATCH": str(tmp_path)}
    )
    ranks = job.wait_at("waits", "in_state_d", "holds_gil", "waits", "waits")
    os.kill(ranks[3].pid, signal.SIGSTOP)
    os.kill(ranks[4].pid, signal.SIGKILL)
    job.wait_for(lambda ranks: {r.state for r in ranks} >= {"stopped", "zombie"})
    rows = {row["rank"]: row for row in job.json("ps")["ranks"]}
    states = {number: row["state"] for number, row in rows.items()}
    assert states == {0: "running", 1: "blocked", 2: "blocked", 3: "stopped", 4: "zombie"}
    assert "state D" in rows[1]["detail"]
    assert "GIL" in rows[2]["detail"]
    assert f"kill -CONT {ranks[3].pid}" in rows[3]["detail"]
    assert rows[3]["where"]["function"] == "waits"


def test_a_launcher_keeps_its_agent_while_its_ranks_are_not_there_yet(job: Job, tmp_path) -> None:
    """Listing a job that is about to start removes nothing of it."""
    launcher = tmp_path / "torchrun"
    launcher.write_text("import threading\nprint('up', flush=True)\nthreading.Event().wait()\n")
    process = job.start(sys.executable, launcher)
    assert process.stdout.readline() == "up\n"
    before = sorted(job.directory.iterdir())
    assert len(before) == 2
    assert job.ranks() == []
    (seen,) = job.ranks(everything=True)
    assert (seen.kind, seen.agent) == ("launcher", True)
    assert sorted(job.directory.iterdir()) == before
