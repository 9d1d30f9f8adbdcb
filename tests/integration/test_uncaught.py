"""Uncaught exceptions: ranks that are held there, and what those that have died left behind."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, TORCHRUN, Job, rankdbg
from rankdbg.types import Answer, Rank
from stopping import Stops
from waiting import PATIENCE, wait_for

PROGRAM = PROGRAMS / "uncaught.py"
WHY = "ZeroDivisionError: division by zero"
HOLD = ("--break-on-error",)
LOADING = 90.0  # on a busy machine the import of torch alone can take half a minute


class Failing(Stops):
    """A job of programs/uncaught.py that is held where it fails."""

    def start(self, *behaviours: str, options: tuple[str, ...] = HOLD, **settings: Any) -> Any:
        """One behaviour is one process, so that the exit status is its own."""
        launcher = [PROGRAMS / "launch.py", len(behaviours)] if len(behaviours) > 1 else []
        words = (sys.executable, *launcher, PROGRAM, *behaviours)
        return self.job.start(*words, options=options, **settings)

    def let_go(self, process: Any) -> tuple[int, str, str]:
        """Exit status, stdout and stderr, after everybody has been told to go on."""
        self.job.cli("continue", "--all")
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err


@pytest.fixture
def failing(job: Job) -> Failing:
    return Failing(job)


# --- held ---------------------------------------------------------------------------------


def test_a_rank_is_held_at_its_exception(failing: Failing) -> None:
    """With the frames of the exception, for pdb and for all other verbs."""
    failing.start("fails", "waits")
    (stop,) = failing.wait(1)
    assert (stop["rank"], stop["kind"], stop["why"]) == (0, "post-mortem", WHY)
    assert stop["where"]["function"] == "divide"
    assert failing.output("0", "p numerator, denominator") == "(2, 0)\n"
    assert "divide(len(batch), 0)" in failing.output("0", "up")
    assert failing.output("0", "p batch") == "[1, 2]\n"

    def is_held() -> bool:
        rank = failing.job.json("ps")["ranks"][0]
        where = rank["where"] or {}
        return (rank["state"], where.get("function")) == ("stopped", "divide")

    wait_for(is_held, lambda: failing.job.cli("ps").stdout)
    assert failing.job.cli("ask", "0", "numerator + 40").stdout.split() == ["0", "42"]
    assert failing.job.cli("ask", "--frame", "fails", "0", "batch").stdout.split()[0] == "0"
    assert "divide uncaught.py" in failing.job.cli("stacks", "0").stdout


def test_it_ends_as_it_would_have(failing: Failing) -> None:
    """One traceback, before the stop is announced; exit status 1."""
    process = failing.start("fails")
    failing.wait(1)
    status, _, err = failing.let_go(process)
    assert status == 1
    assert err.count("Traceback") == err.count(f"\n{WHY}\n") == 1
    assert err.index(f"\n{WHY}\n") < err.index("rankdbg: this process has stopped")


def test_the_programs_own_hook(failing: Failing) -> None:
    """It may end the process: it is called after the hold, and once."""
    process = failing.start("has_a_hook")
    (stop,) = failing.wait(1)
    assert stop["why"] == WHY
    status, _, err = failing.let_go(process)
    assert status == 7
    assert err.count("its own hook: division by zero") == 1


def test_a_thread(failing: Failing) -> None:
    """It is held in its own name, its traceback is printed once, and the process goes on."""
    process = failing.start("in_thread")
    (stop,) = failing.wait(1)
    assert (stop["thread"], stop["why"]) == ("worker", WHY)
    assert failing.output("0", "p denominator") == "0\n"
    status, out, err = failing.let_go(process)
    assert (status, out) == (0, "the main thread goes on\n")
    assert err.count("Exception in thread worker") == err.count("Traceback") == 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_of_multiprocessing(failing: Failing, method: str) -> None:
    """It is held in its own process, and its exit status is 1."""
    process = failing.start(f"in_{method}")
    (stop,) = failing.wait(1)
    assert (stop["why"], stop["where"]["function"]) == (WHY, "divide")
    assert stop["pid"] != process.pid
    status, out, err = failing.let_go(process)
    assert (status, out) == (0, "exit status of the child: 1\n")
    assert err.count("Process child:") == err.count("Traceback") == 1


def test_workers_of_process_pools(failing: Failing) -> None:
    """Held where the frames are; the parent gets the exception afterwards."""
    process = failing.start("in_pools")
    found = failing.wait(2)
    assert {stop["where"]["function"] for stop in found} == {"divide"}
    status, out, _ = failing.let_go(process)
    assert (status, out) == (0, "raised: division by zero\n" * 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("behaviour", "options"),
    [
        pytest.param("in_torch_spawn", HOLD, marks=pytest.mark.extra),
        pytest.param("stops_in_torch_spawn", (), marks=pytest.mark.extra),
    ],
)
def test_torch_spawn(failing: Failing, behaviour: str, options: tuple[str, ...]) -> None:
    """Held in the child, before the parent hears of it; also where it was stopped before."""
    pytest.importorskip("torch", reason="needs torch")
    process = failing.start(behaviour, options=options)
    if not options:
        failing.wait(1, patience=LOADING)
        failing.job.cli("continue", "--all")
    found = failing.wait(lambda found: [s["kind"] for s in found] == ["post-mortem"], LOADING)
    (stop,) = found
    assert stop["why"] == WHY
    status, out, _ = failing.let_go(process)
    assert (status, out) == (0, f"raised: {WHY}\n")


@pytest.mark.parametrize(
    ("behaviour", "status"), [("exits", 3), ("is_interrupted", -2), ("quits", 1)]
)
def test_what_is_no_failure_is_not_held(failing: Failing, behaviour: str, status: int) -> None:
    """SystemExit, KeyboardInterrupt, and the debugger's own quit."""
    process = failing.start(behaviour)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    assert "has stopped" not in err


@pytest.mark.extra
@pytest.mark.slow
def test_torchrun(failing: Failing) -> None:
    """One of three ranks is held, under @record too; the others wait for it and live; when
    it has gone on, torchrun ends the job, and is not held itself."""
    pytest.importorskip("torch", reason="needs torch")
    process = failing.job.start(*TORCHRUN, 3, PROGRAM, "with_torch", options=HOLD)
    (stop,) = failing.wait(1, patience=LOADING)
    assert (stop["rank"], stop["why"]) == (1, WHY)
    states = {0: "running", 1: "stopped", 2: "running"}
    failing.job.wait_for(lambda ranks: {rank.number: rank.state for rank in ranks} == states)
    sizes = failing.job.cli("ask", "--frame", "reduces", "all", "tensor.numel()").stdout
    assert sizes.split()[:2] == ["0-2", "3"]
    status, _, err = failing.let_go(process)
    assert status == 1
    shown = err.index(f"[rank1]: {WHY}\n")
    assert shown < err.index("rankdbg: rank 1 has stopped")
    assert "ChildFailedError" in err


def test_stepping_into_a_failure(failing: Failing) -> None:
    """The stop that is being stepped through becomes one at the exception."""
    process = failing.start("steps_into_failure")
    (stop,) = failing.wait(1)
    for _ in range(10):
        if stop["kind"] == "post-mortem":
            break
        failing.cast("0", "n")
        (stop,) = failing.wait(1)
    assert (stop["why"], stop["where"]["function"]) == (WHY, "divide")
    assert failing.output("0", "p denominator") == "0\n"
    assert failing.let_go(process)[0] == 1


@pytest.mark.parametrize(
    "behaviour", ["stops_and_fails", "stops_in_fork", "stops_in_spawn", "stops_in_thread"]
)
def test_a_rank_that_was_stopped_is_held_at_its_exception(failing: Failing, behaviour: str) -> None:
    """Without --break-on-error: in the main thread, in another, and in multiprocessing's child."""
    process = failing.start(behaviour, options=())
    (stop,) = failing.wait(1)
    assert stop["kind"] == "breakpoint"
    failing.job.cli("continue", "--all")
    (stop,) = failing.wait(lambda found: [stop["kind"] for stop in found] == ["post-mortem"])
    assert (stop["why"], stop["where"]["function"]) == (WHY, "divide")
    _, _, err = failing.let_go(process)
    assert err.count("Traceback") == 1


def test_others_are_not_held(failing: Failing) -> None:
    """A rank that nobody has stopped ends at its exception, and so does the child that a stopped
    one forks."""
    process = failing.start("fails", options=())
    assert process.communicate(timeout=PATIENCE)[1].count("Traceback") == 1
    process = failing.start("forks_after_a_stop", options=())
    failing.wait(1)
    status, out, _ = failing.let_go(process)
    assert (status, out) == (0, "exit status of the child: 1\n")


def test_nothing_more_is_loaded(tmp_path: Path) -> None:
    """The hooks are there before the program imports anything, and import nothing public."""
    code = "import sys; print(*sys.modules)"
    seen = []
    for extra in ({}, {"RANKDBG_BREAK": "error", "RANKDBG_SAVE_ON_ERROR": str(tmp_path / "x")}):
        environment = {**os.environ, "RANKDBG": "1", "RANKDBG_DIR": str(tmp_path / "a"), **extra}
        words = [sys.executable, "-c", code]
        printed = subprocess.check_output(words, env=environment, text=True, timeout=PATIENCE)
        seen.append(set(printed.split()))
    assert {name for name in seen[1] - seen[0] if not name.startswith("rankdbg.")} == set()


# --- a stop that nobody comes to ----------------------------------------------------------


@pytest.mark.parametrize("behaviour", ["fails", "stops"])
def test_a_stop_times_out(failing: Failing, behaviour: str) -> None:
    """The rank continues after RANKDBG_STOP_TIMEOUT seconds without a command, with a message."""
    process = failing.start(behaviour, env={"RANKDBG_STOP_TIMEOUT": "0.5"})
    out, err = process.communicate(timeout=PATIENCE)
    assert "rankdbg: this process continues: no command for 0.5 s\n" in err
    assert (process.returncode, out) == ((1, "") if behaviour == "fails" else (0, "went on\n"))


@pytest.mark.parametrize("timeout", ["-5", "soon"])
def test_invalid_stop_timeout(failing: Failing, timeout: str) -> None:
    """Stops have no timeout then, and one message says so, with the variable's name."""
    process = failing.start("stops", env={"RANKDBG_STOP_TIMEOUT": timeout})
    failing.wait(1)
    status, out, err = failing.let_go(process)
    assert (status, out) == (0, "went on\n")
    reason = f"rankdbg: invalid RANKDBG_STOP_TIMEOUT='{timeout}': expected seconds, 0 or more"
    assert err.count(f"{reason}; stops have no timeout\n") == 1


def test_a_command_keeps_a_stop(failing: Failing) -> None:
    """The time begins anew with each; also a Python prompt in the stop ends with it."""
    with failing.job.session() as session:

        def stopped() -> list[Rank]:
            ranks = session.roster(where=False).jobs().get(failing.job.name, [])
            return [rank for rank in ranks if rank.state == "stopped"]

        assert stopped() == []  # and its node is there, before the time begins
        process = failing.start("stops", env={"RANKDBG_STOP_TIMEOUT": "5"})
        (rank,) = wait_for(stopped)
        (value,) = session.command([rank], "p value\n")
        (prompt,) = session.command([rank], "interact\n")
    assert isinstance(value, Answer) and value.value.output == "5\n"
    assert isinstance(prompt, Answer) and "interactive" in prompt.value.output
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "went on\n")
    assert err.count("continues: no command for") == 1


# --- saved --------------------------------------------------------------------------------


class Saved:
    """A directory into which ranks have saved, opened as a snapshot."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.options = ("--save-on-error", str(directory))

    def cli(self, verb: str, *words: object) -> str:
        result = rankdbg(verb, "-t", f"snapshot:{self.directory}", *words)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def json(self, verb: str, *words: object) -> Any:
        return json.loads(self.cli(verb, "--json", *words))


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path / "errors")


def test_dead_ranks_can_be_looked_at(failing: Failing, saved: Saved) -> None:
    """Each by number: why it died, its frames and its variables, without its secrets."""
    failing.start("fails", "exits", "has_odd_values", options=saved.options).communicate(
        timeout=PATIENCE
    )
    ranks = saved.json("ps")["ranks"]
    assert [(rank["rank"], rank["state"], rank["detail"]) for rank in ranks] == [
        (0, "gone", WHY),
        (2, "gone", WHY),
    ]
    assert "fails uncaught.py" in saved.cli("stacks")
    assert saved.cli("ask", "0", "numerator").split() == ["0", "2"]
    assert saved.cli("ask", "--frame", "fails", "0", "batch").split() == ["0", "[1,", "2]"]
    assert saved.cli("ask", "all", "api_key").split() == ["0,2", "***"]
    odd = saved.cli("ask", "--frame", "has_odd_values", "2", "bad")
    assert "<Bad whose repr raises ValueError>" in odd
    stops = saved.json("list")["stops"]
    assert [(stop["rank"], stop["kind"], stop["why"]) for stop in stops] == [
        (0, "post-mortem", WHY),
        (2, "post-mortem", WHY),
    ]
    assert all("hunter2" not in path.read_text() for path in saved.directory.rglob("*.json"))


def test_nobody_else_can_read_it(failing: Failing, saved: Saved) -> None:
    """Directories 0700, files 0600, and nothing half-written stays."""
    process = failing.start("fails", options=saved.options, umask=0)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    for path in [saved.directory, *saved.directory.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
        assert path.suffix in ("", ".json") or path.is_dir()


def test_a_thread_and_then_the_main_one(failing: Failing, saved: Saved) -> None:
    """Both exceptions of a process are there."""
    failing.start("in_thread_and_main", options=saved.options).communicate(timeout=PATIENCE)
    stops = saved.json("list")["stops"]
    assert [(stop["thread"], stop["why"]) for stop in stops] == [
        ("worker", WHY),
        ("MainThread", "LookupError: main, too"),
    ]
    (rank,) = saved.json("ps")["ranks"]
    assert (rank["state"], rank["detail"]) == ("gone", "LookupError: main, too")
    assert saved.cli("ask", "--thread", "worker", "all", "numerator").split()[-1] == "2"


def test_a_process_that_lives_on_is_not_gone(failing: Failing, saved: Saved) -> None:
    """A thread has failed: so it says, and that the process ran."""
    failing.start("in_thread", options=saved.options).communicate(timeout=PATIENCE)
    (rank,) = saved.json("ps")["ranks"]
    assert (rank["state"], rank["detail"]) == ("running", f"{WHY} (thread worker)")


def test_children_save_too(failing: Failing, saved: Saved) -> None:
    """They add to the same directory, also while it is being looked at."""
    failing.start("fails", options=saved.options).communicate(timeout=PATIENCE)
    assert len(saved.json("ps")["ranks"]) == 1
    failing.start("in_fork", options=saved.options).communicate(timeout=PATIENCE)
    failing.start("in_spawn", options=saved.options).communicate(timeout=PATIENCE)
    ranks = saved.json("ps")["ranks"]
    assert sorted(rank["rank"] for rank in ranks) == [0, 1, 2]


def test_saved_before_a_hook_that_ends_the_process(failing: Failing, saved: Saved) -> None:
    """And the hook is called as ever."""
    process = failing.start("has_a_hook", options=saved.options)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 7
    assert err.count("its own hook") == 1
    assert saved.json("ps")["ranks"][0]["detail"] == WHY


def test_hold_and_save(failing: Failing, saved: Saved) -> None:
    """Both can be had: what is held has been saved already."""
    process = failing.start("fails", options=(*HOLD, *saved.options))
    failing.wait(1)
    assert saved.json("ps")["ranks"][0]["detail"] == WHY
    assert failing.let_go(process)[0] == 1


def test_a_save_that_fails(failing: Failing, tmp_path: Path) -> None:
    """One line on stderr, and the program ends as it would."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    process = failing.start(
        "fails", options=(), env={"RANKDBG_SAVE_ON_ERROR": str(blocked / "inside")}
    )
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    (line,) = [line for line in err.splitlines()[1:] if line.startswith("rankdbg:")]
    assert line.startswith("rankdbg: cannot save ZeroDivisionError: ")
    assert err.count("Traceback") == 1


def test_a_full_disk(failing: Failing, saved: Saved) -> None:
    """A file that cannot be written whole is not left behind."""

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))

    process = failing.start("fails", options=saved.options, preexec_fn=no_room)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "rankdbg: cannot save ZeroDivisionError: " in err
    assert [path for path in saved.directory.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("directory", ["", __file__])
def test_a_directory_that_is_none(job: Job, directory: str) -> None:
    """Refused before the command starts."""
    result = job.cli("run", "--save-on-error", directory, "--", "true")
    assert result.returncode == 2
    assert "expected a directory" in result.stderr


def test_a_directory_that_holds_a_saved_job(job: Job, tmp_path: Path) -> None:
    """What `rankdbg save` has written is not mixed with exceptions: one sentence, status 2,
    the command does not start, and the snapshot is as it was."""
    job.start_ranks("waits")
    job.wait_at("waits")
    directory = tmp_path / "saved"
    assert job.cli("save", directory).returncode == 0
    before = sorted(directory.rglob("*"))
    result = rankdbg("run", "--save-on-error", directory, "--", "echo", "started")
    assert (result.returncode, result.stdout) == (2, "")
    sentence = f"error: {directory} already contains a snapshot\n"
    assert result.stderr == f"{sentence}  hint: use a new directory\n"
    assert sorted(directory.rglob("*")) == before
