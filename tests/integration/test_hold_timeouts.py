"""A rank that stands at a breakpoint longer than the process group's timeout."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents import Programs
from jobs import PROGRAMS, Job, command, meeting, rankdbg
from stopping import Stops
from waiting import PATIENCE, TEST_SECONDS, wait_for

GROUPS = PROGRAMS / "groups_torch.py"
LIMITS = (
    "[int(group._get_backend(torch.device('cpu')).options._timeout.total_seconds())"
    " for group in dist.distributed_c10d._world.pg_map]"
)
STORE = "int(dist.distributed_c10d._get_default_store().timeout.total_seconds())"
HELPER = "dist.distributed_c10d._new_process_group_helper.__module__"
LONG = 20 * 24 * 3600
LOADING = 90.0  # on a busy machine the import of torch alone can take half a minute


def takes_long(test: Any) -> Any:
    return pytest.mark.slow(test)


class Torch(Stops):
    """Two gloo ranks of programs/groups_torch.py ."""

    process: Any = None

    def start(self, function: str, seconds: int = 5, *options: str, **settings: Any) -> Any:
        pytest.importorskip("torch", reason="needs torch")
        process = self.job.start_torch(2, GROUPS, function, seconds, options=options, **settings)
        self.process = process
        return process

    def wait(
        self, wanted: Callable[[list[Any]], bool] | int, patience: float = LOADING
    ) -> list[Any]:
        def arrived(stops: list[Any]) -> bool:
            if (process := self.process) is not None:
                assert process.poll() is None, process.communicate()
            if isinstance(wanted, int):
                return [stop["state"] for stop in stops] == ["stopped"] * wanted
            return wanted(stops)

        return super().wait(arrived, patience)

    def outstay(self, process: Any, seconds: float) -> None:
        """Let the stopped rank stand for so long, and then go on. Only this one: the other may
        have come to its own stop before `continue all` reaches it."""
        self.wait(1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        assert process.poll() is None, process.communicate()[1]
        (stop,) = self.wait(1)
        assert "resumed" in self.job.cli("continue", stop["rank"]).stdout

    def ask(self, expression: str, ranks: str = "all") -> list[str]:
        """The different values of it, as text."""
        return [group["value"] for group in self.job.json("ask", ranks, expression)["groups"]]

    def wait_until(self, expression: str, value: object) -> None:
        wait_for(lambda: self.ask(expression) == [str(value)], lambda: self.ask(expression))

    def start_stopped(self) -> None:
        """The stops hold no timeouts themselves: what a shell does is to be seen."""
        self.start("both_stop", env={"RANKDBG_HOLD_TIMEOUTS": "0"})
        self.wait(2)

    def finish(self, process: Any) -> None:
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        assert output == "together 2\n" * 2
        assert "on other nodes" not in errors


@pytest.fixture
def torch_job(job: Job) -> Torch:
    return Torch(job)


@pytest.fixture
def shells(torch_job: Torch) -> Iterator[Shells]:
    shells = Shells(torch_job.job)
    yield shells
    shells.end()


class Shells:
    """Shells that stay open until their input ends."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._open: list[subprocess.Popen[str]] = []

    def open(self) -> subprocess.Popen[str]:
        words = command("shell", "--job", self._job.name)
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        shell = subprocess.Popen(words, env=self._job.environment, text=True, **pipes)
        self._open.append(shell)
        return shell

    def leave(self, shell: subprocess.Popen[str]) -> str:
        """What it has printed. All is as before when it has ended."""
        output, errors = shell.communicate("quit\n", timeout=PATIENCE)
        assert shell.returncode == 0, errors
        return output

    def end(self) -> None:
        for shell in self._open:
            shell.kill()
            shell.communicate()


@takes_long
def test_a_job_outlives_a_long_stop(torch_job: Torch) -> None:
    """Held for longer than its timeout in one rank, the job goes on and finishes."""
    process = torch_job.start("before_reduce", 4, "--hold-timeouts")
    torch_job.outstay(process, 6)
    torch_job.finish(process)


@takes_long
def test_without_it_the_job_dies(torch_job: Torch) -> None:
    """The same job, where the user does not want its timeouts to be held."""
    process = torch_job.start("before_reduce", 5, env={"RANKDBG_HOLD_TIMEOUTS": "0"})
    torch_job.wait(1)
    (stopped,) = torch_job.job.wait_for(lambda ranks: [rank.number for rank in ranks] == [0])
    os.kill(stopped.pid, signal.SIGKILL)  # as launchers do when another rank has died
    _, errors = process.communicate(timeout=TEST_SECONDS)
    assert process.returncode != 0
    assert "Timed out waiting 5000ms" in errors


@takes_long
def test_a_stop_holds_the_timeouts_of_the_other_ranks(torch_job: Torch) -> None:
    """Without any option and without a shell: rank 1 enters the collective after rank 0 has
    stopped, waits for longer than its limit, and the job finishes. After the stop the timeouts
    stay held for a while, and for the next stop."""
    process = torch_job.start("held_before_reduce")
    torch_job.outstay(process, 8)
    torch_job.wait(lambda stops: [stop["rank"] for stop in stops] == [1])
    assert torch_job.ask(LIMITS, "1") == [str([LONG])]  # rank 0 may have left the program
    torch_job.job.cli("continue", "all")
    torch_job.finish(process)


@pytest.mark.extra
@takes_long
def test_timeouts_are_back_when_the_stopped_rank_is_gone(torch_job: Torch) -> None:
    """A stop's hold is a lease: nobody has to live to take it back."""
    torch_job.start("one_stops")
    (stop,) = torch_job.wait(1)
    torch_job.wait_until(LIMITS, [LONG])
    os.kill(stop["pid"], signal.SIGKILL)
    torch_job.wait_until(LIMITS, [5])


@takes_long
def test_a_rank_that_waits_already_is_named(torch_job: Torch, tmp_path: Path) -> None:
    """Its collective keeps the limit with which it began: the stopped rank says so on stderr."""
    go = tmp_path / "go"
    process = torch_job.start("stops_late", 300, env={"STOP_WHEN": str(go)})
    torch_job.job.wait_at("stops_late", "reduce_alone", patience=LOADING)
    go.touch()
    torch_job.wait(1)
    lines = iter(process.stderr.readline, "")
    (warning,) = itertools.islice((line for line in lines if "already waiting" in line), 1)
    assert warning.startswith("rankdbg: rank 0 is stopped, but rank 1 was already waiting in ")
    assert "all_reduce and times out in " in warning


@pytest.mark.extra
@takes_long
def test_ranks_on_other_nodes_are_spoken_of(job: Job, tmp_path: Path) -> None:
    """They cannot be told: the stopped rank says once what holds their timeouts too."""
    pytest.importorskip("torch", reason="needs torch")
    where = meeting()
    nodes = [
        job.start(
            *(sys.executable, GROUPS, "before_reduce", 300),
            env={**where, "RANK": str(rank), "WORLD_SIZE": "2", **directory},
        )
        for rank, directory in enumerate(({}, {"RANKDBG_DIR": str(tmp_path / "other")}))
    ]
    Torch(job).wait(1)
    lines = iter(nodes[0].stderr.readline, "")
    (warning,) = itertools.islice((line for line in lines if "on other nodes" in line), 1)
    assert warning.startswith("rankdbg: rank 0 is stopped: ranks on other nodes")
    assert "rankdbg shell" in warning and "--hold-timeouts" in warning
    job.cli("continue", "all")
    rest = [process.communicate(timeout=PATIENCE) for process in nodes]
    assert [output for output, _ in rest] == ["together 2\n"] * 2
    assert "on other nodes" not in rest[0][1] + rest[1][1]


@pytest.mark.extra
@takes_long
def test_what_else_would_time_out(torch_job: Torch) -> None:
    """To make a group and to use it, recv, monitored_barrier and the store wait as well."""
    process = torch_job.start("before_all_else", 4, "--hold-timeouts")
    for _ in range(6):
        torch_job.outstay(process, 5)
    torch_job.finish(process)


@pytest.mark.extra
@takes_long
def test_while_a_shell_is_open(torch_job: Torch, shells: Shells) -> None:
    """Held until the last of two shells leaves; then every group and the store have their
    own timeouts again, also a group that was made in between, and torch its functions."""
    torch_job.start_stopped()
    assert torch_job.ask(LIMITS) == ["[5, 7]"]
    first = shells.open()
    torch_job.wait_until(LIMITS, [LONG, LONG])
    second = shells.open()
    torch_job.cast("all", "import datetime; later = datetime.timedelta(seconds=9)")
    torch_job.cast("all", "made = dist.new_group(timeout=later)")
    assert torch_job.ask(LIMITS) == [str([LONG] * 3)]
    assert torch_job.ask(STORE) == [str(LONG)]
    # The second one holds by now: its answer comes after that.
    assert second.stdin is not None and second.stdout is not None
    second.stdin.write("ask all 41 + 1\n")
    second.stdin.flush()
    assert second.stdout.readline() == "0-1  42\n"
    shells.leave(first)
    assert torch_job.ask(LIMITS) == [str([LONG] * 3)]
    shells.leave(second)
    assert torch_job.ask(LIMITS) == ["[5, 7, 9]"]
    assert torch_job.ask(STORE) == ["5"]
    assert torch_job.ask(HELPER) == ["'torch.distributed.distributed_c10d'"]


@pytest.mark.extra
@takes_long
def test_a_shell_that_is_killed(torch_job: Torch, shells: Shells) -> None:
    """After kill -9 the timeouts are back within seconds; one that is suspended keeps them."""
    torch_job.start_stopped()
    shell = shells.open()
    torch_job.wait_until(LIMITS, [LONG, LONG])
    shell.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 9  # more than a lease
    while time.monotonic() < deadline:
        assert torch_job.ask(LIMITS) == [str([LONG, LONG])]
        with contextlib.suppress(subprocess.TimeoutExpired):
            shell.wait(1)
    shell.kill()
    torch_job.wait_until(LIMITS, [5, 7])
    assert torch_job.ask(STORE) == ["5"]


@takes_long
def test_operations_in_flight_are_named(torch_job: Torch, shells: Shells) -> None:
    """A collective that began before keeps its limit: the shell and its list say so."""
    torch_job.start("one_reduces", 300)
    torch_job.job.wait_at("one_reduces", "reduce_alone", patience=LOADING)
    result = torch_job.job.cli("shell", input="list\n")
    warning = "warning: rank 1: all_reduce of group default_pg began before timeouts were held"
    assert result.stderr.startswith(f"{warning} and keeps its limit of 5 min: "), result.stderr
    assert result.stdout.startswith(f"no rank is stopped\n{warning}")
    shells.open()
    torch_job.wait_until(LIMITS, [LONG])
    (entry,) = torch_job.job.json("list")["in_flight"]
    assert (entry["rank"], entry["operation"]) == (1, "all_reduce")
    assert (entry["group"], entry["limit"]) == ("default_pg", 300)
    assert 100 < entry["left"] < 300


def test_what_nccl_must_know_before() -> None:
    """run tells NCCL's watchdog to wait, unless the user has spoken; nothing on stdout."""
    names = ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC")
    code = f"import os; print([os.environ.get(name) for name in {names}])"
    command = ("--", sys.executable, "-c", code)
    clean = {name: value for name, value in os.environ.items() if name not in names}
    assert rankdbg("run", "--hold-timeouts", *command, env=clean).stdout == f"['0', '{LONG}']\n"
    own = {**clean, names[0]: "3"}
    assert rankdbg("run", "--hold-timeouts", *command, env=own).stdout == f"['3', '{LONG}']\n"
    assert rankdbg("run", *command, env=clean).stdout == "[None, None]\n"


def test_a_program_without_torch(programs: Programs) -> None:
    """Nothing is imported for it; a client that holds, and one that has left, do no harm."""
    process = programs.start(
        """
        import sys, threading
        print(len({"torch", "datetime", "json", "inspect"} & set(sys.modules)), flush=True)
        threading.Event().wait()
        """,
        env={"RANKDBG_HOLD_TIMEOUTS": "1"},
    )
    assert process.said == "0"
    held = {"held": True, "refused": [], "in_flight": []}
    assert programs.ask(process.pid, "hold", holder="me", lease=1) == held
    assert programs.ask(process.pid, "hold", holder="me", lease=0) == held  # by the run
    other = programs.start("import threading; print(1, flush=True); threading.Event().wait()")
    assert programs.ask(other.pid, "hold", holder="me", lease=1) == held
    holders = "__import__('rankdbg.agent.groups.timeouts', fromlist=['_'])._holders"
    wait_for(lambda: programs.evaluate(other.pid, holders).get("text") == "{}", "the lease ends")
