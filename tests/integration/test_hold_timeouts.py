"""A rank that stands at a breakpoint longer than the process group's timeout."""

from __future__ import annotations

import contextlib
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
from jobs import PATIENCE, PROGRAMS, TORCHRUN, Job, rankdbg
from stopping import Stops
from waiting import wait_for

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
    return pytest.mark.slow(pytest.mark.timeout(180)(test))


class Torch(Stops):
    """Two gloo ranks of programs/groups_torch.py ."""

    def start(self, function: str, seconds: int = 5, *options: str) -> Any:
        pytest.importorskip("torch", reason="needs torch")
        return self.job.start_torch(2, GROUPS, function, seconds, options=options)

    def wait(
        self, wanted: Callable[[list[Any]], bool] | int, patience: float = LOADING
    ) -> list[Any]:
        return super().wait(wanted, patience)

    def outstay(self, process: Any, seconds: float) -> None:
        """Let the stopped ranks stand for so long, and then go on."""
        self.wait(1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        assert process.poll() is None, process.communicate()[1]
        assert len(self.wait(1)) == 1
        assert "goes on" in self.job.cli("continue", "all").stdout

    def ask(self, expression: str) -> list[str]:
        """The different values of it, as text."""
        return [group["value"] for group in self.job.json("ask", "all", expression)["groups"]]

    def wait_until(self, expression: str, value: object) -> None:
        wait_for(lambda: self.ask(expression) == [str(value)], lambda: self.ask(expression))

    def start_stopped(self) -> None:
        self.start("both_stop")
        self.wait(2)

    def finish(self, process: Any) -> None:
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        assert output == "together 2\n" * 2


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
        words = [sys.executable, "-m", "rankdbg", "shell", "--job", self._job.name]
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
    """Held for 15 seconds in one rank, with a timeout of 5, the job goes on and finishes."""
    process = torch_job.start("before_reduce", 5, "--hold-timeouts")
    torch_job.outstay(process, 15)
    torch_job.finish(process)


@takes_long
def test_without_it_the_job_dies(torch_job: Torch, tmp_path: Path) -> None:
    """The same job, where nobody asked to hold its timeouts."""
    (tmp_path / "meeting").mkdir()
    words = ("before_reduce", 5, tmp_path / "meeting")
    process = torch_job.job.start(*TORCHRUN, 2, GROUPS, *words)
    _, errors = process.communicate(timeout=150)
    assert process.returncode != 0
    assert "Timed out waiting 5000ms" in errors


@takes_long
def test_what_else_would_time_out(torch_job: Torch) -> None:
    """To make a group and to use it, recv, monitored_barrier and the store wait as well."""
    process = torch_job.start("before_all_else", 5, "--hold-timeouts")
    for _ in range(6):
        torch_job.outstay(process, 7)
    torch_job.finish(process)


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
    killed = time.monotonic()
    torch_job.wait_until(LIMITS, [5, 7])
    assert time.monotonic() - killed < 20
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
    holders = "__import__('rankdbg.agent.timeouts', fromlist=['_'])._holders"
    wait_for(lambda: programs.evaluate(other.pid, holders).get("text") == "{}", "the lease ends")
