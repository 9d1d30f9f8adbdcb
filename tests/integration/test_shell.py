"""rankdbg shell: from a pipe, and in a real terminal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator

import pytest

from jobs import Job
from stopping import Stops
from tmux_screen import Screen


@pytest.fixture
def stops(job: Job) -> Stops:
    return Stops(job)


@pytest.fixture
def terminal(stops: Stops, tmp_path) -> Iterator[Screen]:
    """A shell in a terminal of 80 columns, on ranks that are stopped."""
    stops.start("steps", "steps", "twice")
    stops.wait(3)
    screen = Screen(tmp_path / "tmux")
    settings = {name: stops.job.environment.get(name) for name in ("RANKDBG_DIR", "PYTHONPATH")}
    settings["XDG_STATE_HOME"] = str(tmp_path)
    assigned = " ".join(f"{name}={shlex.quote(v)}" for name, v in settings.items() if v)
    try:
        screen.start(f"env {assigned} {sys.executable} -m rankdbg shell --job {stops.job.name}")
        screen.wait("rankdbg>")
        yield screen
    finally:
        screen.close()


def test_commands_from_a_pipe(stops: Stops) -> None:
    """Each line is a command; what comes back is grouped."""
    stops.start("steps", "steps", "twice")
    stops.wait(3)
    script = "cast ranks(0:2) p x\nlist 2\nask all RANK * 0\nl 0\nc 2\nwhere 0\nquit\ncast all q\n"
    result = stops.job.cli("shell", input=script)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:2] == ["0  0", "1  1"]
    assert lines[3].split()[:3] == ["2", "breakpoint", "twice"]
    assert "0-2  0" in lines
    assert "2  resumed" in lines
    assert any("steps stops.py" in line for line in lines)


def test_break_and_pause_in_the_shell(stops: Stops) -> None:
    """A break is set, listed and taken away; a running rank is paused."""
    stops.job.start_ranks("loops", "loops")
    stops.job.wait_for(lambda ranks: len(ranks) == 2 and all(r.where for r in ranks))
    script = "break behave.py:1 if 1 < 0\nbreak\nclear\npause 0\n"
    result = stops.job.cli("shell", input=script)
    assert "behave.py" in result.stdout
    (stop,) = stops.wait(1)
    assert (stop["rank"], stop["kind"]) == (0, "pause")


def test_mistakes_in_a_pipe(stops: Stops) -> None:
    """A wrong line is said, the next ones are done, and the exit status is 2."""
    stops.start("steps")
    stops.wait(1)
    script = "nosuch\ncast\ncast tq=1 n\nattach\ndetach\ncast 0 p x\ncast 0 q\n"
    result = stops.job.cli("shell", input=script)
    assert result.returncode == 2
    assert result.stdout == "0  0\n"
    assert "unknown command 'nosuch'" in result.stderr
    assert "no dimension tq" in result.stderr
    assert "would terminate these ranks" in result.stderr
    assert "Traceback" not in result.stderr


def test_attach_from_a_pipe(stops: Stops) -> None:
    """After attach, lines go to pdb until detach; several lines with a backslash."""
    stops.start("steps")
    stops.wait(1)
    result = stops.job.cli(
        "shell", input="attach 0\np x\nn\ndetach\ncast 0 for i in (1, 2):\\\n print(i)\n"
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("[rank 0 · ")
    assert "0" in lines
    assert any(line.endswith("-> z = y * 10") for line in lines)
    assert lines[-2:] == ["0  1", "   2"]


@pytest.mark.parametrize("wrong", ["attach 7", "attach 1", "attach", "attach all"])
def test_what_follows_a_failed_attach_is_skipped(stops: Stops, wrong: str) -> None:
    """It was meant for that rank: `c` lets nobody go on. After detach lines are the shell's."""
    stops.start("steps", "done")
    stops.wait(1)
    result = stops.job.cli("shell", input=f"{wrong}\nc\nclear\nquit\ndetach\ncast 0 p x\n")
    assert result.returncode == 2
    assert "resumed" not in result.stdout and "continues" not in result.stdout
    assert result.stdout.endswith("0  0\n")
    assert len(stops.wait(1)) == 1


def test_attach_stays_where_the_rank_stops_again(stops: Stops) -> None:
    """`c` leads to the next breakpoint of the same rank; when the rank has gone on, a `c` more
    does not let the others go on."""
    stops.start("twice", "twice")
    stops.wait(2)
    result = stops.job.cli("shell", input="attach 0\np n\nc\np n + 10\nc\nc\n")
    assert result.returncode == 2
    lines = result.stdout.splitlines()
    assert [line for line in lines if line in ("0", "11")] == ["0", "11"]
    assert lines[-1] == "rank 0 continues"
    assert "continue all" in result.stderr
    (stop,) = stops.wait(1)
    assert stop["rank"] == 1


def test_it_opens_on_what_is_stopped(terminal: Screen) -> None:
    """The stops are listed at once; Tab completes; Ctrl-C gives a fresh line, Ctrl-D leaves."""
    terminal.wait("3 stops in 3 ranks.  Type help for help.", "0-1    breakpoint  steps")
    terminal.type("ca", "Tab")
    terminal.wait("rankdbg> cast")
    terminal.type("C-c")
    terminal.at("rankdbg>", "cast 0-1 p x + 40")
    terminal.wait("0  40\n1  41\nrankdbg>")
    terminal.type("C-d")
    terminal.wait_for_the_end()


def test_attach_in_a_terminal(terminal: Screen, stops: Stops) -> None:
    """pdb with the rank's prompt; Ctrl-C leaves while the rank runs; quit asks first."""
    terminal.at("rankdbg>", "attach 1")
    terminal.wait("[rank 1 · ", "]  breakpoint", "-> y = x + 1\n(rank 1)")
    terminal.at("(rank 1)", "p x")
    terminal.wait("(rank 1) p x\n1\n(rank 1)")
    terminal.at("(rank 1)", "q")
    terminal.at("quit terminates rank 1, and possibly the job. Really quit? [no]", "no")
    terminal.at("(rank 1)", "import time; time.sleep(60)")
    terminal.wait("still running", "Ctrl-C leaves it running")
    terminal.type("C-c")
    terminal.at("rankdbg>", "attach 0")
    terminal.at("(rank 0)", "detach")
    terminal.at("rankdbg>", "quit")
    terminal.wait_for_the_end()
    stops.wait(lambda found: len(found) == 3)  # one of them sleeps


def test_late_answers_are_shown_when_they_arrive(terminal: Screen) -> None:
    """A rank that was still running when cast returned prints above the prompt later."""
    terminal.at(
        "rankdbg>", "cast 0-1 import time; time.sleep(4 if RANK else 0); print('awake', RANK)"
    )
    terminal.wait("0  awake 0", "1  still running")
    terminal.wait("1  awake 1\nrankdbg>")


def test_late_answers_do_not_get_between_the_lines_of_a_command(stops: Stops) -> None:
    """One that arrives while the next command runs is printed after that command."""
    stops.start("steps", "steps")
    stops.wait(2)
    late = "cast 1 import time; time.sleep(3); print('late')"
    slow = r"cast 0 import time; time.sleep(1.8); print('one\ntwo')"
    result = stops.job.cli("shell", input=f"{late}\n{slow}\nhelp\n")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    one = lines.index("0  one")
    assert lines[one + 1] == "   two"
    assert lines.index("1  late") > one + 1
