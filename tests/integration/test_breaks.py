"""Breaks that are set in a running job, and pauses, in each Python that is here."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jobs import PATIENCE, PROGRAMS, Job
from stopping import Stops

PROGRAM = PROGRAMS / "breaks.py"
OTHERS = {
    path.parts[-3].rpartition(".")[0]: path
    for path in sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[0-9].*/bin/python"))
}
HERE = f"3.{sys.version_info.minor}"
# The others take their time on a busy machine: RANKDBG_TEST_PYTHONS=all tries them too.
CHOSEN = OTHERS if os.environ.get("RANKDBG_TEST_PYTHONS") == "all" else {}
PYTHONS = {**CHOSEN, HERE: Path(sys.executable)}


def line_of(comment: str) -> int:
    """The line of programs/breaks.py that ends with this comment."""
    lines = PROGRAM.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# {comment}"))


def place(comment: str) -> str:
    return f"breaks.py:{line_of(comment)}"


class Running(Stops):
    """A job of programs/breaks.py in one of the Pythons."""

    def __init__(self, job: Job, version: str) -> None:
        super().__init__(job)
        self.version = version
        self.monitors = int(version.partition(".")[2]) >= 12

    def start(self, *behaviours: str, **settings: Any) -> Any:
        words = (PROGRAMS / "launch.py", len(behaviours), PROGRAM, *behaviours)
        return self.job.start(PYTHONS[self.version], *words, **settings)

    def begin(self, *behaviours: str, **settings: Any) -> Any:
        """Started, and each rank in the function of its behaviour, or in one that it calls."""
        process = self.start(*behaviours, **settings)
        self.job.wait_for(
            lambda ranks: (
                len(ranks) == len(behaviours)
                and all(r.where and r.where.function != "<module>" for r in ranks)
            )
        )
        return process

    def ask(self, verb: str, *words: object) -> Any:
        result = self.job.cli(verb, "--json", *words)
        assert result.returncode in (0, 1), result.stderr
        return json.loads(result.stdout)

    def value(self, expression: str) -> str:
        (group,) = self.ask("ask", "0", expression)["groups"]
        return group["value"]

    def wait_value(self, expression: str, wanted: str) -> None:
        deadline = time.monotonic() + PATIENCE
        value = ""
        while time.monotonic() < deadline:
            value = self.value(expression)
            if value == wanted:
                return
        raise AssertionError(f"{expression} is never {wanted}; last: {value}")


@pytest.fixture(params=sorted(PYTHONS))
def running(job: Job, request: pytest.FixtureRequest) -> Running:
    return Running(job, request.param)


# --- pause ----------------------------------------------------------------------------------


def test_pause_stops_ranks_where_they_are(running: Running) -> None:
    """In a loop of calls and in a loop of one line; pdb steps on from there; then all go on."""
    running.begin("loops", "tight")
    ranks = running.ask("pause", "all")["ranks"]
    assert [(r["rank"], r["state"]) for r in ranks] == [(0, "stopped"), (1, "stopped")]
    assert ranks[1]["where"]["function"] == "tight"
    assert [stop["kind"] for stop in running.wait(2)] == ["pause", "pause"]
    assert running.ask("pause", "all")["ranks"] == ranks  # they stand there already
    first = int(running.output("1", "p n"))
    running.output("1", "n")
    assert int(running.output("1", "p n")) - first in (0, 1)
    running.job.cli("continue")
    running.wait(0)


def test_pause_of_a_rank_in_c(running: Running, tmp_path: Path) -> None:
    """It is named with where it is, and stops as soon as it comes back."""
    os.mkfifo(tmp_path / "pipe")
    running.begin("reads", env={"SCRATCH": str(tmp_path)})
    (rank,) = running.ask("pause", "all")["ranks"]
    assert (rank["state"], rank["where"]["function"]) == ("blocked", "reads")
    text = running.job.cli("pause", "all").stdout
    assert text.startswith("0  in C, at reads breaks.py:")
    assert running.wait(0) == []
    (tmp_path / "pipe").write_text("go")
    (stop,) = running.wait(1)
    assert stop["kind"] == "pause"


def test_pause_can_be_cancelled(running: Running, tmp_path: Path) -> None:
    """A rank that comes back from C afterwards does not stop."""
    os.mkfifo(tmp_path / "pipe")
    running.begin("reads", env={"SCRATCH": str(tmp_path)})
    running.ask("pause", "all")
    (rank,) = running.ask("pause", "all", "--cancel")["ranks"]
    assert rank["state"] == "cancelled"
    (tmp_path / "pipe").write_text("go")
    running.job.wait_for(lambda ranks: ranks[0].where.function in ("loops", "double"))
    assert running.wait(0) == []


def test_a_pause_leaves_nothing_behind(running: Running) -> None:
    """After it the loop has no trace function, and no events."""
    running.begin("loops")
    running.ask("pause", "all")
    running.job.cli("continue")
    running.wait(0)
    running.wait_value("tracer", "None")
    if running.monitors:
        assert running.value("[sys.monitoring.get_tool(i) for i in range(6)]") == str([None] * 6)


# --- breaks ---------------------------------------------------------------------------------


def test_break_in_a_function_that_is_executing(running: Running) -> None:
    """A loop that never leaves its frame stops at its line, each time round."""
    running.begin("loops", "loops")
    (group,) = running.ask("break", place("in loops"))["groups"]
    assert (group["ranks"], group["state"]) == ("0-1", "set")
    assert group["files"] == [str(PROGRAM)]
    for stop in running.wait(2):
        assert (stop["kind"], stop["why"]) == ("breakpoint", place("in loops"))
        assert stop["where"]["line"] == line_of("in loops")
    first = int(running.output("0", "p step"))
    assert running.output("0", "c") == ""
    running.wait(2)
    assert int(running.output("0", "p step")) == first + 1


def test_break_in_a_function_that_is_called(running: Running) -> None:
    """By the end of its path; only in the ranks that were chosen."""
    running.begin("loops", "loops")
    running.ask("break", f"programs/{place('in double')}", "--ranks", "1")
    (stop,) = running.wait(1)
    assert (stop["rank"], stop["where"]["function"]) == (1, "double")
    assert running.output("1", "p x == step if 'step' in dir() else x * 2 > x") == "True\n"


def test_break_in_a_generator(running: Running) -> None:
    """One that was begun before the break was set."""
    running.begin("generates")
    running.ask("break", f"{PROGRAM}:{line_of('in numbers')}")
    (stop,) = running.wait(1)
    assert stop["where"]["function"] == "numbers"


def test_break_in_a_file_that_is_imported_later(running: Running, tmp_path: Path) -> None:
    """It is there, but not loaded: the answer says so, and the break is hit."""
    (tmp_path / "later.py").write_text("def function(x):\n    y = x + 1\n    return y\n")
    running.begin("imports_later", env={"SCRATCH": str(tmp_path)})
    (group,) = running.ask("break", "later.py:2")["groups"]
    assert group["state"] == "waits"
    (tmp_path / "now").touch()
    (stop,) = running.wait(1)
    assert (stop["where"]["function"], stop["why"]) == ("function", "later.py:2")


def test_stepping_and_breaks_together(running: Running) -> None:
    """n over a call stops in it; n onto a line with a break stops once, and moves on."""
    running.begin("loops")
    running.ask("break", place("in loops"))
    running.wait(1)
    running.ask("break", place("in double"))
    assert "-> y = x * 2" in running.output("0", "n")
    assert "-> return y" in running.output("0", "n")
    seen = [running.output("0", "n").partition("-> ")[2] for _ in range(6)]
    words = [line.split()[0] for line in seen]
    assert words == ["return", "while", "step", "tracer", "twice", "y"]
    assert "-> return y" in running.output("0", "n")
    running.output("0", "c")
    (stop,) = running.wait(lambda stops: [s["state"] for s in stops] == ["stopped"])
    assert stop["why"] == place("in loops")


def test_variables_can_be_changed_at_a_break(running: Running) -> None:
    """What was assigned in pdb is what the function goes on with."""
    running.begin("loops")
    running.ask("break", place("in loops"))
    running.wait(1)
    running.output("0", "!step = -100")
    running.output("0", "c")
    running.wait(lambda stops: [s["state"] for s in stops] == ["stopped"])
    assert running.output("0", "p step") == "-99\n"


def test_condition(running: Running) -> None:
    """It is evaluated in the frame, with what is in scope there."""
    running.begin("loops")
    condition = "step % 100 == 42 and any(i == RANK and step for i in [0])"
    running.ask("break", place("in loops"), "if", condition)
    running.wait(1)
    assert running.output("0", "p step % 100") == "42\n"
    (group,) = running.ask("break", "--list")["groups"]
    assert (group["breaks"][0]["condition"], group["breaks"][0]["hits"]) == (condition, 1)


def test_condition_that_fails(running: Running) -> None:
    """Stops once, with the reason; afterwards the loop is not held up."""
    running.begin("loops")
    running.ask("break", place("in loops"), "if", "nosuch > 3")
    (stop,) = running.wait(1)
    assert stop["why"].endswith("its condition failed: NameError: name 'nosuch' is not defined")
    running.job.cli("continue")
    running.wait(0)
    (group,) = running.ask("break", "--list")["groups"]
    assert group["breaks"][0]["error"] == "NameError: name 'nosuch' is not defined"
    assert running.wait(0) == []


def test_log_point(running: Running) -> None:
    """Writes a line to the rank's stderr and goes on; the last ones are in the list."""
    running.begin("loops")
    words = ("if", "step % 100 == 0", "log", "step={step:,} 'q' \"d\"")
    running.ask("break", place("in loops"), *words)
    deadline = time.monotonic() + PATIENCE
    logged: list[str] = []
    while time.monotonic() < deadline and len(logged) < 3:
        logged = running.ask("break", "--list")["groups"][0]["breaks"][0]["logged"]
    numbers = [int(line.removeprefix("step=").split()[0].replace(",", "")) for line in logged]
    assert numbers == [numbers[0] + 100 * index for index in range(len(logged))]
    assert logged[0] == f"step={numbers[0]:,} 'q' \"d\""
    listed = running.job.cli("break", "--list").stdout
    assert re.search(rf"^0    {place('in loops')} step=[\d,]+ 'q' \"d\"$", listed, re.MULTILINE)
    assert running.wait(0) == []


def test_log_line_on_stderr(running: Running) -> None:
    """`rankdbg: rank 0 FILE:LINE TEXT`."""
    process = running.begin("loops")
    process.stderr.readline()  # run's own
    running.ask("break", place("in loops"), "log", "twice={step * 2 == twice + 2}")
    assert process.stderr.readline() == f"rankdbg: rank 0 {place('in loops')} twice=True\n"
    running.ask("break", "--clear")


def test_clear_leaves_nothing_behind(running: Running) -> None:
    """After it the loop has no trace function, and no events; the list is empty."""
    running.begin("loops")
    running.ask("break", place("in never_called"))
    running.ask("break", place("in double"))
    running.wait(1)
    (group,) = running.ask("break", "--clear", place("in double"))["groups"]
    assert group["cleared"] == [["breaks.py", line_of("in double")]]
    running.job.cli("continue")
    running.wait(0)
    (group,) = running.ask("break", "--list")["groups"]
    assert [entry["line"] for entry in group["breaks"]] == [line_of("in never_called")]
    running.ask("break", "--clear")
    running.wait_value("tracer", "None")
    assert running.ask("break", "--list")["groups"][0]["breaks"] == []
    if running.monitors:
        assert running.value("[sys.monitoring.get_tool(i) for i in range(6)]") == str([None] * 6)
    running.ask("break", place("in double"))  # and it can be set again
    running.wait(1)


def test_threads(running: Running) -> None:
    """One that was running before is stopped from Python 3.12 on; else the answer names it."""
    running.begin("in_thread")
    (group,) = running.ask("break", place("in loops"))["groups"]
    if running.monitors:
        (stop,) = running.wait(1)
        assert (stop["thread"], group["missed"]) == ("worker", [])
    else:
        assert group["missed"] == ["worker"]
        text = running.job.cli("break", place("in loops")).stdout
        assert "0  not yet in threads that were running before: worker\n" in text


def test_threads_that_start_later(running: Running) -> None:
    """Have the break in every Python."""
    running.begin("starts_threads")
    running.ask("break", place("in double"))
    (stop,) = running.wait(1)
    assert stop["thread"] == "later"
    running.ask("break", "--clear")
    running.job.cli("continue")
    running.wait(0)


# --- mistakes -------------------------------------------------------------------------------


def test_a_line_without_code(running: Running) -> None:
    """The nearest line with code is named, and nothing is set."""
    running.begin("loops")
    line = line_of("no code here")
    result = running.job.cli("break", f"breaks.py:{line}")
    assert result.returncode == 1
    near = f"{PROGRAM}:{line + 1}"
    assert result.stdout == f"0  no code at breaks.py:{line}; nearest line with code: {near}\n"
    assert running.ask("break", "--list")["groups"][0]["breaks"] == []


def test_a_file_that_is_not_there(running: Running) -> None:
    """Files of that name elsewhere, or of a name like it, are named."""
    running.begin("loops")
    for wanted in ("other/breaks.py", "braeks.py"):
        result = running.job.cli("break", f"{wanted}:1")
        assert result.returncode == 1
        assert result.stdout == f"0  no file {wanted} in its code; there is {PROGRAM}\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["breaks.py"], "'breaks.py' is not FILE:LINE"),
        (["breaks.py:0"], "'breaks.py:0' is not FILE:LINE"),
        (["breaks.py:5", "when", "x"], "'when' after FILE:LINE is neither 'if' nor 'log'"),
        (["breaks.py:5", "if", "x >"], "the condition is not Python"),
        (["breaks.py:5 if x > 3 log '{x'"], "what to log is not Python"),
        (["breaks.py:5", "if"], "the condition is missing"),
        ([], "break where?"),
    ],
)
def test_what_cannot_be_understood(job: Job, words: list[str], complaint: str) -> None:
    """Is refused before any rank is asked."""
    result = job.cli("break", *words)
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {complaint}")
