"""Breaks and pauses with several clients, with clients that are killed, and under torchrun."""

from __future__ import annotations

import contextlib
import linecache
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from breaking import Running, line_of, place, values
from jobs import PROGRAMS, TORCHRUN, Job, command
from rankdbg.frontends.commands.commands import Commands
from rankdbg.frontends.shell.typing import PipedLines
from rankdbg.frontends.terminal import Terminal
from waiting import PATIENCE, wait_for


@pytest.fixture
def running(running_here: Running) -> Running:
    return running_here


@pytest.fixture
def other(running: Running) -> Iterator[Running]:
    """A second client of the same job."""
    other = Running(running.job)
    yield other
    other.close()


def start_client(job: Job, *words: object) -> subprocess.Popen[bytes]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    words = command(words[0], "--job", job.name, *words[1:])
    return subprocess.Popen(words, env=job.environment, **quiet)


def kill(client: subprocess.Popen[bytes]) -> None:
    client.send_signal(signal.SIGKILL)
    client.wait(PATIENCE)


def processes_of(job: Job) -> set[int]:
    """Its ranks, its clients, and the nodes of these."""
    wanted = f"RANKDBG_DIR={job.directory}".encode()
    found = set()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in entry.read_bytes().split(b"\0"):
                found.add(int(entry.parent.name))
    return found


# --- two at once ----------------------------------------------------------------------------


def test_two_clients_set_and_clear_at_once(running: Running, other: Running) -> None:
    """Each sees its own break set and gone again; in the end the program is untouched."""
    running.begin("loops")
    other.wait_for_ranks(1)
    failures: list[object] = []

    def set_and_clear(client: Running, comment: str) -> None:
        try:
            for _ in range(10):
                assert client.set(comment, "step < 0").state == "set"
                assert line_of(comment) in [entry.line for entry in client.breaks()]
                assert client.clear(comment) == [["breaks.py", line_of(comment)]]
        except BaseException as error:
            failures.append(error)

    work = [(running, "in loops"), (other, "in never_called")]
    threads = [threading.Thread(target=set_and_clear, args=pair) for pair in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []
    assert running.breaks() == other.breaks() == []
    running.wait_untouched()


def test_two_clients_at_one_stop(running: Running, other: Running) -> None:
    """Both see it and command it; every command is executed once, none is lost."""
    running.begin("loops")
    other.wait_for_ranks(1)
    running.set("in loops")
    (stop,) = other.wait(1)
    assert stop.why == place("in loops")
    running.output("!seen = []")
    failures: list[object] = []

    def command(client: Running, name: str) -> None:
        try:
            for _ in range(20):
                assert client.output(f"p seen.append({name!r})") == "None\n"
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=command, args=pair) for pair in [(running, "a"), (other, "b")]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []
    assert other.output("p seen.count('a'), seen.count('b')") == "(20, 20)\n"
    running.clear()
    assert other.go_on() == ["ended"]
    running.wait_for_none()


# --- kill -9 of a client --------------------------------------------------------------------


def test_a_client_is_killed_at_its_command(running: Running, tmp_path: Path) -> None:
    """The command goes on, and its output is for the next who comes; the stop stays."""
    running.begin("loops")
    running.set("in loops")
    running.wait(1)
    code = f"while not os.path.exists({str(tmp_path / 'now')!r}): time.sleep(0.001)"
    client = start_client(running.job, "cast", "0", f"exec({code!r}); print('done')")
    wait_for(lambda: not running.stops(), running.stops)
    kill(client)
    (tmp_path / "now").touch()
    (stop,) = running.wait(1)
    assert stop.output == "done\n"
    assert running.output("p step > 0") == "True\n"
    running.clear()
    assert running.go_on() == ["ended"]


def test_a_client_is_killed_at_its_pause(running: Running, tmp_path: Path) -> None:
    """What it has asked for holds: the rank stops when it comes back, and another lets it go."""
    os.mkfifo(tmp_path / "pipe")
    running.begin("reads", env={"SCRATCH": str(tmp_path)})
    client = start_client(running.job, "pause", "all")
    running.wait_value("sys.modules['rankdbg.agent.stops.pauses']._wanted", "True")
    kill(client)
    (tmp_path / "pipe").write_text("go")
    (stop,) = running.wait(1)
    assert stop.kind == "pause"
    assert running.go_on() == ["ended"]
    running.wait_untouched()


def test_clients_are_killed_at_any_moment(running: Running) -> None:
    """While they set breaks: whatever became of these, the next client finds a rank that
    answers, and can clear them."""
    running.begin("loops")
    before = processes_of(running.job)
    for moment in range(1, 6):
        client = start_client(running.job, "break", place("in loops"), "if", "step < 0")
        with contextlib.suppress(subprocess.TimeoutExpired):
            client.wait(0.05 * moment)
        kill(client)
    # A node that has lost its client may still be about to set what that had asked for.
    wait_for(lambda: processes_of(running.job) <= before, "the last node ends")
    running.set("in loops")
    running.wait(1)
    running.clear()
    assert running.go_on() == ["ended"]
    running.wait_untouched()


# --- torchrun -------------------------------------------------------------------------------


@pytest.mark.extra
@pytest.mark.slow
def test_torchrun(running: Running) -> None:
    """A break in one of two ranks: the other waits for it in all_reduce, cannot be paused
    there, and goes on with it."""
    pytest.importorskip("torch", reason="needs torch")
    program = PROGRAMS / "breaks_torch.py"
    running.job.start(*TORCHRUN, 2, program)
    running.wait_for_ranks(2, program=program)
    first, second = running.ranks
    line = line_of("in trains", program)
    running.set_at("breaks_torch.py", line, ranks=[second])
    running.wait(1)
    assert running.stops()[0][0] == second
    step = int(running.output("p step", second))
    wait_for(lambda: waits_in_all_reduce(running, step + 1), "the first waits for the second")
    (waiting,) = values(running.session.pause([first]))
    assert (waiting.state, waiting.where[0]) == ("blocked", "trains")
    running.clear()
    states = [running.command("continue", rank)[0].state for rank in (first, second)]
    assert states == ["cancelled", "ended"]
    running.wait_value(f"step > {step + 5}", "True")
    running.wait_for_none()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [pytest.param((), marks=pytest.mark.extra), ("tells",)],
    ids=["collectives", "steps"],
)
def test_all_ranks_stop_at_the_same_step(running: Running, words: tuple[str, ...]) -> None:
    """None has passed the line when the first stops there, so that none waits in a collective
    for those that have stopped; time after time."""
    pytest.importorskip("torch", reason="needs torch")
    program = PROGRAMS / "breaks_torch.py"
    running.job.start_torch(4, program, *words)
    running.wait_for_ranks(4, program=program)
    spot = f"breaks_torch.py:{line_of('in trains', program)}"
    for _ in range(3):
        result = running.job.cli("break", spot)
        assert result.stdout.startswith("0-3  set at "), result.stdout
        running.wait(4)
        assert len({value.output for value in running.command("p step")}) == 1
        running.clear()
        assert running.go_on() == ["ended"] * 4
        running.wait_for_none()


def test_a_break_counts_for_a_rank_that_is_stopped(running: Running) -> None:
    """It goes on to the very next line that has one, whatever its count of steps."""
    running.begin("loops", "loops")
    running.job.cli("break", place("in loops"))
    running.wait(2)
    running.job.cli("break", place("in double"))
    assert running.go_on() == ["ended"] * 2
    assert {stop.where[0] for stop in running.wait(2)} == {"double"}


def waits_in_all_reduce(running: Running, step: int) -> bool:
    """Whether the first rank has come to the all_reduce after that step, and waits there."""
    if running.value("step") != str(step):
        return False
    (sampled,), _ = running.session.stacks(running.ranks[:1])
    innermost = sampled.main()[0].frames[0]
    line = linecache.getline(innermost.file, innermost.line)
    return innermost.function.endswith("all_reduce") and ".wait()" in line


# --- what Tab offers ------------------------------------------------------------------------


def test_completion_in_the_shell(running: Running) -> None:
    """Places of breaks that are set; after a place, what may follow it."""
    running.begin("loops", "loops")
    spot = place("in never_called")
    running.set("in never_called")
    lines = PipedLines(sys.stdin)
    shell = Commands(running.session, running.job.name, Terminal(), lines)
    assert [*shell.complete("clear br")] == [spot, "ranks("]
    assert [*shell.complete(f"clear {spot} ra")] == ["ranks(", "ranks(gpus=", "ranks(hosts="]
    assert [*shell.complete(f"break {spot} ")][:3] == ["if", "log", "ranks("]
    assert "if" not in shell.complete(f"break {spot} if x ")
