"""rankdbg top on jobs that take steps, come and go, and run on other hosts."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from jobs import PROGRAMS, Job
from ssh_hosts import Hosts
from tmux_screen import OpenTop

BEHAVE, LOGS_STEPS = PROGRAMS / "behave.py", PROGRAMS / "logs_steps.py"


def test_steps_and_their_rate(job: Job, open_top: OpenTop, tmp_path: Path) -> None:
    """As the program reports them, or as its log has them."""
    log = (tmp_path / "train.log").open("w")
    job.start(sys.executable, PROGRAMS / "launch.py", 2, LOGS_STEPS, stdout=log, stderr=log)
    screen = open_top(job.environment)
    screen.wait("making progress", " steps/s")
    assert re.search(r" step \d+ ", screen.text())
    screen.type("l")
    screen.wait("logs", "loss 0.25")
    log.close()


def test_reported_steps(job: Job, open_top: OpenTop, tmp_path: Path) -> None:
    job.start(
        sys.executable, PROGRAMS / "launch.py", 2, PROGRAMS / "watched.py", "go-on", cwd=tmp_path
    )
    screen = open_top(job.environment)
    screen.wait("making progress", " steps/s", "STEP")


def test_jobs_come_and_go(job: Job, open_top: OpenTop, tmp_path: Path) -> None:
    """No job, a job, its end, and another one."""
    other = Job(f"{job.name}-again", tmp_path)
    screen = open_top(job.environment)
    screen.wait("no job is running here")
    job.start_ranks("waits", "waits_elsewhere")
    screen.wait(f"> {job.name}")
    screen.type("Enter")
    screen.wait("waits_elsewhere")
    job.end_ranks()
    screen.wait("ended", f"rankdbg doctor --job {job.name}")
    screen.type("Escape")
    other.start_ranks("waits")
    try:
        screen.wait(other.name, "ended", "2 jobs")
    finally:
        other.end_ranks()


def test_two_hosts(open_top: OpenTop, tmp_path: Path) -> None:
    """A job on hosts that are reached with ssh; one of them is lost, and comes back."""
    with Hosts(tmp_path / "hosts", "host-1", "host-2") as hosts:
        for number, name in enumerate(hosts.names):
            hosts.start_rank(name, "two", number, 2, BEHAVE, "waits", "waits_elsewhere")
        screen = open_top(hosts.environment(), "-t", hosts.target)
        screen.wait("two   2 ranks on 2 nodes", "waits_elsewhere")
        hosts.stop("host-2")
        screen.wait("no response: node host-2", "waits ")
        hosts.start("host-2")
        hosts.start_rank("host-2", "two", 1, 2, BEHAVE, "waits", "waits_elsewhere")
        screen.wait_without("no response")
        screen.wait("two   2 ranks on 2 nodes", "waits_elsewhere")
