"""`rankdbg run --wait-for-editor`: ranks that run nothing before an editor has come."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from agents import python
from editor import DapServer, Editor, frames, line_of
from jobs import PROGRAMS, TORCHRUN, Job, rankdbg
from tiers import chiefly_two
from waiting import PATIENCE

pytest.importorskip("debugpy", reason="needs debugpy")

PROGRAM = PROGRAMS / "first_line.py"
FIRST = line_of(PROGRAM, "the first line")
TWO = f"for r in 0 1; do RANK=$r WORLD_SIZE=2 {sys.executable} {PROGRAM} & done; wait"
# Each of two ranks and the process that it starts.
ALL = sorted(f"{what} {rank}" for what in ("runs", "ends") for rank in (0, 0, 1, 1))
WAITS = "waits for an editor before its first line"


def start(job: Job, *command: object, option: str = "--wait-for-editor") -> Any:
    return job.start(*command, options=(option,))


def wait_until_all_wait(job: Job, count: int = 2) -> None:
    job.wait_for(
        lambda ranks: [rank.detail for rank in ranks] == [WAITS] * count,
    )


def stop_in_first_line(job: Job, process: Any) -> None:
    """An editor with a breakpoint there attaches; both ranks stop at it, and then run to their
    end."""
    with DapServer(job) as server:
        editor = Editor(server)
        editor.break_at(PROGRAM, FIRST)
        editor.attach()
        for session in editor.wait_for(2).values():
            thread = session.event("stopped")["threadId"]
            assert frames(session, thread)[0] == ("<module>", FIRST)
        assert editor.say("continue") == "ranks 0-1 continue"
        output, _ = process.communicate(timeout=PATIENCE)
        assert sorted(output.splitlines()) == ALL
        editor.close()


def test_breakpoint_in_the_first_line(job: Job) -> None:
    """All ranks wait; a breakpoint there is hit by all; what they start does not wait."""
    process = start(job, "sh", "-c", TWO)
    wait_until_all_wait(job)
    stop_in_first_line(job, process)


@pytest.mark.slow
@pytest.mark.parametrize("version", chiefly_two(["3.10", "3.12", "3.13", "3.14"]))
def test_every_python(job: Job, version: str) -> None:
    """Those that trace in other ways, and have no debugpy of their own."""
    process = start(job, "sh", "-c", TWO.replace(sys.executable, str(python(version))))
    wait_until_all_wait(job)
    stop_in_first_line(job, process)


@pytest.mark.extra
@pytest.mark.slow
def test_ranks_of_torchrun(job: Job) -> None:
    """They wait, and torchrun itself does not."""
    process = start(job, *TORCHRUN, 2, PROGRAM)
    wait_until_all_wait(job)
    stop_in_first_line(job, process)


def test_without_breakpoints_they_go_on(job: Job) -> None:
    """An editor that has set none is waited for as well, and then nothing stops."""
    process = start(job, "sh", "-c", TWO)
    wait_until_all_wait(job)
    with DapServer(job) as server:
        editor = Editor(server)
        editor.attach()
        output, said = process.communicate(timeout=PATIENCE)
        assert sorted(output.splitlines()) == ALL
        assert said.count("for an editor before its first line: rankdbg vscode") == 2
        editor.close()


def test_ranks_that_the_editor_does_not_want(job: Job) -> None:
    """They go on while the one that it wants is stopped."""
    process = start(job, "sh", "-c", TWO)
    wait_until_all_wait(job)
    with DapServer(job, "0") as server:
        editor = Editor(server)
        editor.break_at(PROGRAM, FIRST)
        editor.attach()
        (session,) = editor.wait_for(1).values()
        session.event("stopped")
        job.wait_for(lambda ranks: [r.number for r in ranks if r.state != "gone"] == [0])
        assert editor.say("continue") == "rank 0 continues"
        output, _ = process.communicate(timeout=PATIENCE)
        assert sorted(output.splitlines()) == ALL
        editor.close()


def test_continue_releases_them(job: Job) -> None:
    """Without an editor: one by its number, then all; ps and list say what they wait for."""
    process = start(job, "sh", "-c", TWO)
    wait_until_all_wait(job)
    shown = job.cli("ps").stdout
    assert WAITS in shown and "_wait" not in shown and "editor_wait.py" not in shown
    listed = job.cli("list").stdout
    assert listed.startswith("no rank is stopped; 0-1 wait for an editor"), listed
    released = job.cli("continue", "1")
    assert (released.returncode, released.stdout) == (0, "1  resumed\n"), released.stderr
    job.wait_for(lambda ranks: [r.number for r in ranks if r.detail == WAITS] == [0])
    assert job.cli("shell", input="continue\n").stdout.splitlines()[0] == "0  resumed"
    output, _ = process.communicate(timeout=PATIENCE)
    assert sorted(output.splitlines()) == ALL


def test_no_longer_than_the_limit(job: Job) -> None:
    """Without an editor it goes on, and says so. Where there is no rank number it waits too."""
    process = start(job, sys.executable, PROGRAM, option="--wait-for-editor=0.5")
    output, said = process.communicate(timeout=PATIENCE)
    assert output.splitlines() == ["runs None", "runs None", "ends None", "ends None"]
    assert "waits for up to 0.5 s for an editor before its first line" in said
    assert "continues: no editor attached within 0.5 s" in said
    assert said.count(f"process {process.pid} ") == 2 and said.count("editor before") == 1


def test_ctrl_c_ends_the_wait(job: Job) -> None:
    process = start(job, sys.executable, PROGRAM)
    wait_until_all_wait(job, 1)
    process.send_signal(signal.SIGINT)
    output, said = process.communicate(timeout=PATIENCE)
    assert (output, "KeyboardInterrupt" in said) == ("", True)


@pytest.mark.parametrize("limit", ["x", "0", "-1", "inf", "train.py"])
def test_limits_that_are_no_time(limit: str, tmp_path: Path) -> None:
    result = rankdbg("run", f"--wait-for-editor={limit}", "--", "true", cwd=tmp_path)
    assert result.returncode == 2
    assert f"invalid time '{limit}': expected a number of seconds above 0" in result.stderr
