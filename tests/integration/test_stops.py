"""Breakpoints in ranks: where they stop, and who commands them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job, command
from stopping import Stops
from waiting import PATIENCE, wait_for


@pytest.fixture
def stops(job: Job) -> Stops:
    return Stops(job)


def test_breakpoint_says_so_and_waits(stops: Stops) -> None:
    """One line on stderr with the command to type; list shows where and why."""
    process = stops.start("with_header")
    (stop,) = stops.wait(1)
    assert (stop["rank"], stop["kind"], stop["why"]) == (0, "breakpoint", "look here")
    assert stop["where"]["function"] == "steps"

    def is_listed() -> bool:
        table = [line.split() for line in stops.job.cli("list").stdout.splitlines()]
        named = table[:1] == [["RANKS", "STOP", "WHERE", "WHY"]]
        return named and [row[:3] for row in table[1:2]] == [["0", "breakpoint", "steps"]]

    def is_selected() -> bool:
        result = stops.job.cli("select", "--json", "state=stopped")
        return result.returncode == 0 and json.loads(result.stdout)["ranks"] == [0]

    # Its agent may be without a processor at any moment, and the rank is not stopped then.
    wait_for(is_listed, lambda: stops.job.cli("list").stdout)
    wait_for(lambda: stops.job.json("ps")["ranks"][0]["state"] == "stopped", "stopped in ps")
    wait_for(is_selected, lambda: stops.job.cli("select", "state=stopped"))
    stops.job.cli("continue")
    stops.wait(0)
    process.stdout.close()
    os.killpg(process.pid, signal.SIGKILL)
    lines = process.stderr.read().splitlines()
    assert lines[1:] == [
        "rankdbg: rank 0 has stopped (breakpoint: look here); look at it with: rankdbg shell"
    ]


def test_cast_gathers_and_groups(stops: Stops) -> None:
    """Equal outputs once with their ranks, for printing and for stepping."""
    stops.start("twice", "steps", "steps", "steps")
    stops.wait(4)
    document = stops.cast("1:", "p x")
    assert document["schema"] == "rankdbg.cast/1"
    assert [(g["ranks"], g["output"]) for g in document["groups"]] == [("1,3", "1\n"), ("2", "0\n")]
    (group,) = stops.cast("1:", "n")["groups"]
    assert group["ranks"] == "1-3"
    assert group["output"].endswith("-> z = y * 10\n")
    result = stops.job.cli("cast", "1", "p", "x", "--json")  # options may come last
    assert '"output": "1\\n"' in result.stdout
    text = stops.job.cli("cast", "all", "p n if 'n' in dir() else x").stdout
    assert text.splitlines() == ["0,2  0", "1,3  1"]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("!x = [1, 2]", ""),
        ("(x, x)", "(0, 0)\n"),
        ("[x for _ in range(2)]", "[0, 0]\n"),
        ("p '" + "a" * 20_000 + "'", "'" + "a" * 20_000 + "'\n"),
        ("if True:\n    print('several')\n    print('lines')", "several\nlines\n"),
        ("p 1/0", "*** ZeroDivisionError: division by zero\n"),
        ("whatis x", "<class 'int'>\n"),
        ("nosuch", "*** NameError: name 'nosuch' is not defined\n"),
    ],
)
def test_any_command(stops: Stops, command: str, output: str) -> None:
    """Also those that start with !, (, [; long ones; several lines of code."""
    stops.start("steps")
    stops.wait(1)
    assert stops.output("0", command) == output


def test_what_the_program_prints_to_pdb_stays_there(stops: Stops) -> None:
    """print() in a command is its output, not the program's."""
    process = stops.start("steps")
    stops.wait(1)
    assert stops.output("0", "print('hello')") == "hello\n"
    stops.job.cli("continue")
    assert process.wait(PATIENCE) == 0
    assert process.stdout.read() == ""


def test_interact_reads_from_the_client(stops: Stops) -> None:
    """A Python prompt that does not touch the rank's own stdin."""
    stops.start("steps")
    stops.wait(1)
    assert "interactive" in stops.output("0", "interact")
    assert stops.output("0", "x + 41") == "41\n"
    assert stops.output("0", "for i in range(2):") == ""
    assert stops.output("0", "    print(i)") == ""
    assert stops.output("0", "") == "0\n1\n"
    stops.output("0", "exit()")
    assert stops.output("0", "p x") == "0\n"


def test_quit_is_not_taken_by_mistake(stops: Stops) -> None:
    """It would end the rank: refused, unless it is said twice."""
    process = stops.start("steps")
    stops.wait(1)
    result = stops.job.cli("cast", "all", "q")
    assert result.returncode == 2
    assert "would terminate these ranks" in result.stderr
    assert "quit rank" in stops.output("0", "quit now")
    assert stops.output("0", "p x") == "0\n"
    stops.job.cli("cast", "--yes", "all", "q")
    assert process.wait(PATIENCE) == 0


def test_other_ways_in(stops: Stops, tmp_path) -> None:
    """pdb.set_trace(), rankdbg.breakpoint(), __del__, a signal handler, an import, no stdin."""
    behaviours = ("by_rankdbg", "by_pdb", "in_del", "in_signal_handler", "while_importing")
    behaviours += ("without_stdin",)
    stops.start(*behaviours, env={"SCRATCH": str(tmp_path)})
    found = {stop["rank"]: stop for stop in stops.wait(6)}
    places = [found[number]["where"]["function"].rpartition(".")[2] for number in range(6)]
    assert places == ["by_rankdbg", "by_pdb", "__del__", "handler", "<module>", "steps"]
    assert found[0]["why"] == "rank 0 alone"
    assert stops.output("1", "p x") == "'set_trace'\n"
    stops.job.cli("continue")
    stops.wait(0)


def test_two_threads_are_two_stops(stops: Stops) -> None:
    """Each thread has its own; a command goes to the first until that has gone on."""
    stops.start("in_threads")
    found = stops.wait(2)
    assert {stop["thread"] for stop in found} == {"north", "south"}
    assert len({stop["stop"] for stop in found}) == 2
    first = stops.output("0", "p name")
    stops.output("0", "continue")
    second = stops.output("0", "p name")
    assert {first, second} == {"'north'\n", "'south'\n"}


def test_a_coroutine(stops: Stops) -> None:
    """Stepping off its end does not land in the event loop."""
    stops.start("in_coroutine")
    stops.wait(1)
    seen = []
    for _ in range(20):
        document = stops.cast("0", "n")
        if not document["groups"] or document["groups"][0]["state"] == "ended":
            break
        seen.append(document["groups"][0]["output"])
    else:
        raise AssertionError(f"never went on: {seen}")
    assert any("endpoint" in output for output in seen)
    assert not any("asyncio/" in output for output in seen)


def test_frames_between_the_users_own_are_hidden(stops: Stops) -> None:
    """bt has the user's functions, and says how many frames of asyncio it has left out; with
    --all they are there."""
    stops.start("in_coroutine")
    stops.wait(1)
    short, long = stops.output("0", "bt"), stops.output("0", "bt --all")
    assert "asyncio/" not in short and "asyncio/" in long
    assert "frames of asyncio hidden: bt --all)" in short
    functions = ("in_coroutine()", "endpoint()", "nested()")
    assert all(function in short and function in long for function in functions)
    assert stops.output("0", "where") == stops.output("0", "w") == short


def test_the_end_of_the_script(stops: Stops) -> None:
    """Stepping off the end of the program ends the program, not in pdb's or runpy's code."""
    process = stops.start("steps")
    stops.wait(1)
    for _ in range(20):
        result = stops.job.cli("cast", "0", "n")
        assert "runpy" not in result.stdout
        if result.returncode == 2:  # there is no such job any more
            break
    assert process.wait(PATIENCE) == 0


def test_forked_and_spawned_children(stops: Stops) -> None:
    """Each child stops in its own process."""
    stops.start("in_children")
    found = stops.wait(2)
    assert len({stop["pid"] for stop in found}) == 2
    assert {stop["where"]["function"] for stop in found} == {"child"}


def test_post_mortem(stops: Stops) -> None:
    """rankdbg.post_mortem() in an except shows the frames of the exception."""
    stops.start("catches")
    (stop,) = stops.wait(1)
    assert (stop["kind"], stop["why"]) == ("post-mortem", "ZeroDivisionError: division by zero")
    assert stops.output("0", "p numerator, denominator") == "(1, 0)\n"
    assert "catches()" in stops.output("0", "up")
    stops.job.cli("continue")
    stops.wait(0)


def test_the_end_of_a_scope_ends_the_stop(stops: Stops) -> None:
    """Stepping past it lets the rank go on."""
    stops.start("in_scope")
    stops.wait(1)
    outputs = []
    for _ in range(6):
        document = stops.cast("0", "n")
        if not document["groups"]:
            break
        outputs.append(document["groups"][0]["output"])
    stops.wait(0)
    assert not any("after_scope" in output for output in outputs)
    stops.job.wait_at("done")


def test_a_killed_rank_ends_its_own_stop_only(stops: Stops) -> None:
    """kill -9 of one, and the other is still there; so is it when a client is killed."""
    stops.start("steps", "steps")
    found = {stop["rank"]: stop for stop in stops.wait(2)}
    words = ["cast", "--job", stops.job.name, "1", "import time; time.sleep(100)"]
    client = subprocess.Popen(
        command(*words, "--timeout", "60"),
        env=stops.job.environment,
        stderr=subprocess.DEVNULL,
    )
    os.kill(found[0]["pid"], signal.SIGKILL)
    client.kill()
    client.wait()
    # It sleeps, if the command came to it.
    stops.wait(lambda found: [stop["rank"] for stop in found] == [1])


def test_a_rank_that_has_not_come_back_is_named(stops: Stops, tmp_path: Path) -> None:
    """With where it is; what it says is shown when it has arrived."""
    stops.start("steps", "steps")
    stops.wait(2)
    os.mkfifo(tmp_path / "pipe")
    slow = f"_ = open({str(tmp_path / 'pipe')!r}).read() if RANK else 0; print('awake')"
    document = stops.cast("all", slow, "--timeout", 4)
    assert [(g["ranks"], g["output"]) for g in document["groups"]] == [("0", "awake\n")]
    (running,) = document["running"]
    assert running["rank"] == 1
    (tmp_path / "pipe").write_text("")
    (group,) = wait_for(lambda: stops.cast("1", ".")["groups"])
    assert group["output"] == "awake\n"


def test_two_clients(stops: Stops, tmp_path: Path) -> None:
    """Both see the same; the second command waits for the first, or is told."""
    stops.start("steps")
    stops.wait(1)
    os.mkfifo(tmp_path / "pipe")
    slow = f"_ = open({str(tmp_path / 'pipe')!r}).read(); x = 'first'"
    words = ["cast", "--job", stops.job.name, "0", slow, "--timeout", "50"]
    first = subprocess.Popen(
        command(*words),
        env=stops.job.environment,
        stdout=subprocess.DEVNULL,
    )
    stops.wait(lambda found: [stop["state"] for stop in found] == ["running"])
    document = stops.cast("0", "p x", "--timeout", 3)
    assert document["running"][0]["rank"] == 0
    (tmp_path / "pipe").write_text("")
    assert first.wait() == 0
    assert stops.output("0", "p x") == "'first'\n"


def test_without_an_agent_breakpoint_is_what_it_was(tmp_path) -> None:
    """And PYTHONBREAKPOINT is the user's word."""
    code = "import sys; print(sys.breakpointhook is sys.__breakpointhook__)"
    environment = {**os.environ, "RANKDBG_DIR": str(tmp_path)}
    for extra, kept in (({"RANKDBG": "0"}, "True"), ({"RANKDBG": "1"}, "False")):
        command = [sys.executable, "-c", code]
        run = subprocess.run(
            command, env={**environment, **extra}, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == kept
    chosen = {**environment, "RANKDBG": "1", "PYTHONBREAKPOINT": "0"}
    run = subprocess.run(
        [sys.executable, "-c", f"{code}; breakpoint()"],
        env=chosen,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "True"


@pytest.mark.extra
@pytest.mark.slow
def test_stepping_into_a_collective(stops: Stops) -> None:
    """One of eight torch ranks is stepped into all_reduce: it is named with where it waits;
    when the others have followed, its answer arrives and all go on."""
    stops.job.start_torch(8, PROGRAMS / "stops_torch.py")
    stops.wait(8)
    document = stops.cast("3", "n", "--timeout", 4)
    assert document["groups"] == []
    assert [running["rank"] for running in document["running"]] == [3]

    def is_inside(found: list[Any]) -> bool:
        places = [stop["where"] for stop in found if stop["rank"] == 3]
        return [place and place["function"] for place in places] == ["all_reduce"]

    stops.wait(is_inside)
    (running,) = stops.cast("3", ".", "--timeout", 4)["running"]
    assert (running["rank"], running["where"]["function"]) == (3, "all_reduce")
    document = stops.cast("0-2,4-7", "n", "--timeout", 30)
    assert [group["ranks"] for group in document["groups"]] == ["0-2,4-7"]
    (group,) = stops.cast("3", ".", "--timeout", 30)["groups"]
    assert group["output"].endswith("-> seen = int(total.item())\n")
    assert stops.output("all", "p total") == "tensor([8.])\n"
    assert stops.job.cli("continue").stdout == "0-7  resumed\n"
    stops.wait(0)
