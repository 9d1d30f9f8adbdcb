"""Ranks that are paused where they are, in each Python that is here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from breaking import Running
from jobs import Job
from waiting import wait_for


@pytest.fixture
def in_c(running: Running, tmp_path: Path) -> Path:
    """A rank that is in C, and what to write into to let it come back."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    running.begin("reads", env={"SCRATCH": str(tmp_path)})
    return pipe


def test_ranks_stop_where_they_are(running: Running) -> None:
    """In a loop of calls and in a loop of one line; pdb steps on from there; then all go on,
    and nothing is left behind."""
    running.begin("loops", "tight")

    def both() -> list[Any] | None:
        """The pause holds: one that got no processor for a while stands later."""
        paused = running.pause()
        return paused if [stop.state for stop in paused] == ["stopped"] * 2 else None

    paused = wait_for(both)
    assert [stop.kind for stop in paused] == ["pause"] * 2
    assert paused[1].where[0] == "tight"
    assert running.pause() == paused  # they stand there already
    tight = running.ranks[1]
    first = int(running.output("p n", tight))
    running.output("n", tight)
    assert int(running.output("p n", tight)) - first in (0, 1)
    assert running.go_on() == ["ended", "ended"]
    running.wait_for_none()
    running.wait_untouched()


def test_a_rank_in_c(running: Running, in_c: Path) -> None:
    """It is named with where it is, and stops as soon as it comes back."""
    (rank,) = running.pause()
    assert (rank.state, rank.where[0]) == ("blocked", "reads")
    text = running.job.cli("pause", "all").stdout
    assert text.startswith("0  in C, at reads breaks.py:")
    assert running.stops() == []
    in_c.write_text("go")
    (stop,) = running.wait(1)
    assert stop.kind == "pause"


@pytest.mark.parametrize("how", ["cancel", "continue"])
def test_a_pause_can_be_cancelled(running: Running, in_c: Path, how: str) -> None:
    """By `pause --cancel` or by `continue`: a rank that comes back from C does not stop."""
    running.pause()
    states = running.go_on() if how == "continue" else [running.pause(cancel=True)[0].state]
    assert states == ["cancelled"]
    assert running.go_on() == ["none"]
    in_c.write_text("go")
    wait_for(lambda: running.value("step > 5") == "True", lambda: running.value("step"))
    running.wait_for_none()
    running.wait_untouched()


def test_continue_says_what_it_has_cancelled(job: Job, tmp_path: Path) -> None:
    """With status 0, on the command line and in the shell."""
    running = Running(job)
    os.mkfifo(tmp_path / "pipe")
    running.begin("reads", env={"SCRATCH": str(tmp_path)})
    running.pause()
    result = job.cli("continue")
    assert (result.returncode, result.stdout) == (0, "0  pause cancelled\n")
    lines = job.cli("shell", input="pause all\nc\nc\n").stdout.splitlines()
    assert lines[1:] == ["0  pause cancelled", "not stopped: 0"]
    running.close()
