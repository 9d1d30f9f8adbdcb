"""Breaks that are set in a running job, in each Python that is here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from breaking import PROGRAM, Running, line_of, place
from jobs import Job
from waiting import wait_for


def test_break_in_a_function_that_is_executing(running: Running) -> None:
    """A loop that never leaves its frame stops at its line, each time round."""
    running.begin("loops", "loops")
    answer = running.set("in loops")
    assert (answer.state, answer.files) == ("set", (str(PROGRAM),))
    for stop in running.wait(2):
        assert (stop.kind, stop.why) == ("breakpoint", place("in loops"))
        assert stop.where[2] == line_of("in loops")
    first = int(running.output("p step"))
    assert running.output("c") == ""
    running.wait(2)
    assert int(running.output("p step")) == first + 1


def test_break_in_a_function_that_is_called(running: Running) -> None:
    """By the end of its path; only in the ranks that were chosen."""
    running.begin("loops", "loops")
    second = running.ranks[1]
    running.set_at("programs/breaks.py", line_of("in double"), ranks=[second])
    running.wait(1)
    ((rank, stop),) = running.stops()
    assert (rank, stop.where[0]) == (second, "double")
    output = running.output("p x == step if 'step' in dir() else x * 2 > x", second)
    assert output == "True\n"


def test_break_in_a_generator(running: Running) -> None:
    """One that was begun before the break was set."""
    running.begin("generates")
    running.set_at(str(PROGRAM), line_of("in numbers"))
    (stop,) = running.wait(1)
    assert stop.where[0] == "numbers"


def test_break_in_a_coroutine(running: Running) -> None:
    """One that waits when the break is set, each time that it comes back."""
    running.begin("awaits")
    running.set("in coroutine")
    for _ in range(2):
        (stop,) = running.wait(1)
        assert (stop.where[0], stop.why) == ("coroutine", place("in coroutine"))
        assert running.go_on() == ["ended"]


def test_break_in_a_file_that_is_imported_later(running: Running, tmp_path: Path) -> None:
    """It is there, but not loaded: the answer says so, and the break is hit."""
    (tmp_path / "later.py").write_text("def function(x):\n    y = x + 1\n    return y\n")
    running.begin("imports_later", env={"SCRATCH": str(tmp_path)})
    assert running.set_at("later.py", 2).state == "waits"
    (tmp_path / "now").touch()
    (stop,) = running.wait(1)
    assert (stop.where[0], stop.why) == ("function", "later.py:2")


def test_stepping_and_breaks_together(running: Running) -> None:
    """n over a call stops in it; n onto a line with a break stops once, and moves on."""
    running.begin("loops")
    running.set("in loops")
    running.wait(1)
    running.set("in double")
    assert "-> y = x * 2" in running.output("n")
    assert "-> return y" in running.output("n")
    seen = [running.output("n").partition("-> ")[2] for _ in range(6)]
    words = [line.split()[0] for line in seen]
    assert words == ["return", "while", "step", "tracer", "twice", "y"]
    assert "-> return y" in running.output("n")
    running.output("c")
    (stop,) = running.wait(1)
    assert stop.why == place("in loops")


def test_variables_can_be_changed_at_a_break(running: Running) -> None:
    """What was assigned in pdb is what the function goes on with."""
    running.begin("loops")
    running.set("in loops")
    running.wait(1)
    running.output("!step = -100")
    running.output("c")
    running.wait(1)
    assert running.output("p step") == "-99\n"


def test_condition(running: Running) -> None:
    """It is evaluated in the frame, with what is in scope there."""
    running.begin("loops")
    condition = "step % 100 == 42 and any(i == RANK and step for i in [0])"
    running.set("in loops", condition)
    running.wait(1)
    assert running.output("p step % 100") == "42\n"
    (entry,) = running.breaks()
    assert (entry.condition, entry.hits) == (condition, 1)


def test_condition_that_fails(running: Running) -> None:
    """Stops once, with the reason; afterwards the loop is not held up."""
    running.begin("loops")
    running.set("in loops", "nosuch > 3")
    (stop,) = running.wait(1)
    assert stop.why.endswith("its condition failed: NameError: name 'nosuch' is not defined")
    running.go_on()
    running.wait_for_none()
    assert running.breaks()[0].error == "NameError: name 'nosuch' is not defined"
    assert running.stops() == []


def test_log_point(running: Running) -> None:
    """Writes `rankdbg: rank 0 FILE:LINE TEXT` to the rank's stderr and goes on; the last lines
    are in the list."""
    process = running.begin("loops")
    process.stderr.readline()  # run's own
    running.set("in loops", "step % 10 == 0", "step={step:,} 'q' \"d\"")
    wait_for(lambda: len(running.breaks()[0].logged) > 2, running.breaks)
    logged = running.breaks()[0].logged
    numbers = [int(line.removeprefix("step=").split()[0].replace(",", "")) for line in logged]
    assert numbers == [numbers[0] + 10 * index for index in range(len(logged))]
    assert logged[0] == f"step={numbers[0]:,} 'q' \"d\""
    running.clear()
    text = rf"rankdbg: rank 0 {place('in loops')} step=[\d,]+ 'q' \"d\"\n"
    assert re.fullmatch(text, process.stderr.readline())
    assert running.stops() == []


def test_clear_leaves_nothing_behind(running: Running) -> None:
    """After it the loop has no trace function, and no events; the list is empty."""
    running.begin("loops")
    running.set("in never_called")
    running.set("in double")
    running.wait(1)
    assert running.clear("in double") == [["breaks.py", line_of("in double")]]
    running.go_on()
    running.wait_for_none()
    assert [entry.line for entry in running.breaks()] == [line_of("in never_called")]
    running.clear()
    running.wait_untouched()
    assert running.breaks() == []
    running.set("in double")  # and it can be set again
    running.wait(1)


# --- code that is in no file ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "file"),
    [
        ("has_a_cell", "<ipython-input-7-0123>"),
        ("has_a_kernels_cell", "ipykernel_123/456.py"),
        ("has_a_pickled_function", "train.py"),
    ],
)
def test_code_that_is_in_no_file(
    running: Running, tmp_path: Path, behaviour: str, file: str
) -> None:
    """A function of a notebook, or pickled by value, that is not executing has the break."""
    running.begin(behaviour, env={"SCRATCH": str(tmp_path)})
    answer = running.set_at(file, 2)
    assert (answer.state, answer.files[0].endswith(file)) == ("set", True)
    assert running.set_at(file, 99).nearest == {answer.files[0]: 3}
    (tmp_path / "now").touch()
    (stop,) = running.wait(1)
    assert (stop.where[0], stop.where[2]) == ("cell", 2)
    running.clear()
    running.set_at(file, 3, "'z' in dir()")  # in a function that is made when it is called
    assert running.go_on() == ["ended"]
    (stop,) = running.wait(1)
    assert stop.where[0].endswith("<lambda>")


def test_a_cell_that_is_executed_later(running: Running, tmp_path: Path) -> None:
    """Its text is in linecache already: the answer says that it waits, and it is hit."""
    running.begin("executes_a_cell_later", env={"SCRATCH": str(tmp_path)})
    assert running.set_at("<cell 8>", 2).state == "waits"
    (tmp_path / "now").touch()
    (stop,) = running.wait(1)
    assert (stop.where[:2], stop.why) == (("cell", "<cell 8>"), "<cell 8>:2")


# --- threads and processes ------------------------------------------------------------------


def test_threads(running: Running) -> None:
    """One that was running before is stopped from Python 3.12 on; else the answer names it."""
    running.begin("in_thread")

    def loops() -> bool:
        (seen,), _ = running.session.stacks(running.ranks, threads="all")
        functions = {f.function for s in seen.samples[0] if s.thread == "worker" for f in s.frames}
        return "loops" in functions

    def reached() -> Any:
        answer = running.set("in loops")
        return answer if "MainThread" not in answer.missed else None

    wait_for(loops, "its other thread is there")
    answer = wait_for(reached, "its main thread has the break")
    if running.monitors:
        (stop,) = running.wait(1)
        assert (stop.thread, answer.missed) == ("worker", ())
    else:
        assert answer.missed == ("worker",)
        text = said_in_time(running.job, "break", place("in loops"))
        assert "0  not yet in threads that were running before: worker\n" in text


def test_threads_that_start_later(running: Running) -> None:
    """Have the break in every Python."""
    running.begin("starts_threads")
    running.set("in double")
    (stop,) = running.wait(1)
    assert stop.thread == "later"
    running.clear()
    running.go_on()
    running.wait_for_none()


@pytest.mark.parametrize("behaviour", ["forks", "forks_in_thread"])
def test_a_forked_child(running: Running, tmp_path: Path, behaviour: str) -> None:
    """Has its parent's breaks, also where another thread than the main one has forked, and
    loses them on its own."""
    running.begin(behaviour, env={"SCRATCH": str(tmp_path)})
    running.set("in loops")
    (tmp_path / "now").touch()
    parent = running.ranks[0]
    running.wait_for_ranks(2, everything=True)
    running.wait(1)
    ((child, stop),) = running.stops()
    assert (child.pid != parent.pid, stop.why) == (True, place("in loops"))
    running.session.clear_breaks([child])
    running.ranks = [child]
    running.go_on()
    running.wait_for_none()
    running.wait_untouched()
    running.ranks = [parent]
    assert len(running.breaks()) == 1


def test_a_spawned_child(running: Running) -> None:
    """Of multiprocessing: a process of its own, with breaks of its own."""
    running.begin("spawns", everything=2)
    child = next(r for r in running.ranks if r.where and r.where.function in ("loops", "double"))
    running.set("in double", ranks=[child])
    running.wait(1)
    ((rank, stop),) = running.stops()
    assert (rank.pid, stop.where[0]) == (child.pid, "double")


# --- mistakes, and what the command line says -----------------------------------------------


def said_in_time(job: Job, *words: str, **settings: Any) -> str:
    """What the command line says of a break, once every main thread has it in time: one that
    gets no processor for half a second is named as well."""
    return wait_for(
        lambda: text if "MainThread" not in (text := job.cli(*words, **settings).stdout) else "",
        "main threads have the break",
    )


def test_a_line_without_code(running: Running) -> None:
    """The nearest line with code is named, and nothing is set."""
    running.begin("loops")
    line = line_of("no code here")
    answer = running.set("no code here")
    assert (answer.state, answer.nearest) == ("no code", {str(PROGRAM): line + 1})
    assert running.breaks() == []


def test_what_the_command_line_says(running_here: Running) -> None:
    """One line for all ranks that answer the same; status 1 where nothing was set."""
    running_here.begin("loops", "loops")
    cli, line = running_here.job.cli, line_of("no code here")
    assert said_in_time(running_here.job, "break", place("in never_called")) == (
        f"0-1  set at {PROGRAM}:{line_of('in never_called')}\n"
    )
    result = cli("break", f"breaks.py:{line}")
    near = f"{PROGRAM}:{line + 1}"
    assert (result.returncode, result.stdout) == (
        1,
        f"0-1  no code at breaks.py:{line}; nearest line with code: {near}\n",
    )
    for wanted in ("other/breaks.py", "braeks.py"):
        result = cli("break", f"{wanted}:1")
        assert result.returncode == 1
        assert result.stdout == f"0-1  no file {wanted} in its code; there is {PROGRAM}\n"
    listed = json.loads(cli("break", "--list", "--json").stdout)["groups"]
    assert [(g["ranks"], g["breaks"][0]["hits"]) for g in listed] == [("0-1", 0)]


def test_ranks_of_a_break(running_here: Running) -> None:
    """`ranks(...)` at the end, in the shell and in the verb, for setting, listing, clearing."""
    running_here.begin("loops", "loops", "loops")
    spot = place("in never_called")
    result = running_here.job.cli("break", f"{spot} if never > 3 ranks(1:3)")
    assert result.stdout.startswith("1-2  set at ")
    shell = f"clear {spot} ranks(2)\nbreak ranks(0, 2)\nbreak"
    lines = running_here.job.cli("shell", input=shell).stdout.splitlines()
    assert lines[0] == f"2  cleared {spot}"
    assert lines[1] == "0,2  no breaks"
    assert sorted(lines[2:]) == ["0,2  no breaks", f"1  {spot} if never > 3 (0 hits)"]
    shell = f"break {spot} ranks(0)\nclear ranks(0)"
    first, second = said_in_time(running_here.job, "shell", input=shell).splitlines()
    assert first.startswith("0  set at ")
    assert second == f"0  cleared {spot}"
    result = running_here.job.cli("break", "--clear", "ranks(1)", "--ranks", "1")
    assert result.returncode == 2
    assert result.stderr.startswith("error: ranks given twice: ranks(1) and --ranks 1")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["breaks.py"], "invalid line 'breaks.py': expected FILE:LINE"),
        (["breaks.py:0"], "invalid line 'breaks.py:0': expected FILE:LINE"),
        (["breaks.py:5", "when", "x"], "invalid 'when' after FILE:LINE: expected 'if' or 'log'"),
        (["breaks.py:5", "tp=0"], "invalid 'tp=0' after FILE:LINE: expected 'if' or 'log'"),
        (["breaks.py:5", "if", "x >"], "the condition is not valid Python"),
        (["breaks.py:5 if x > 3 log '{x'"], "what to log is not valid Python"),
        (["breaks.py:5", "if"], "the condition is missing"),
        (["breaks.py:5 if x > > ranks(0)"], "the condition is not valid Python"),
        (["ranks(0)"], "no line given"),
        ([], "no line given"),
    ],
)
def test_what_cannot_be_understood(job: Job, words: list[str], complaint: str) -> None:
    """Is refused before any rank is asked."""
    result = job.cli("break", *words)
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {complaint}")
