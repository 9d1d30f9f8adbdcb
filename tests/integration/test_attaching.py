"""What stops a process to look into it: never one that cannot take it, and none stays stopped."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import PROGRAMS, Job
from rankdbg.node.probes import ProbeFailed, attaching, gdb, pystack
from waiting import PATIENCE, wait_for

TRACER = str(PROGRAMS / "hanging_tracer.py")
COUNTS = "import sys, time\nwhile True: print(flush=True); time.sleep(0.01)"


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def tracer_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("TracerPid:")[2].split()[0])


def hangs_in_vfork(pid: int) -> bool:
    """In behave.py's own library, not in the start of the compiler, which is a vfork as well."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return state_of(pid) == "D" and any("/pytest-" in line and ".so" in line for line in maps)


class Target:
    """A process that writes a line every now and then, for as long as it runs."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", COUNTS], stdout=subprocess.PIPE)
        self.pid = self._process.pid
        self.sees_it_run()

    def sees_it_run(self) -> None:
        """Ten new lines; those of before are more than the pipe can hold at most."""
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        while self._process.stdout.read(1 << 16):
            pass
        lines = 0

        def more() -> bool:
            nonlocal lines
            lines += len(self._process.stdout.read(1 << 16) or b"")
            return lines > 10

        wait_for(more, lambda: f"state {state_of(self.pid)}")

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.end()


@pytest.fixture
def tracer(target: Target) -> Iterator[int]:
    """Somebody else's debugger, attached."""
    process = subprocess.Popen([sys.executable, TRACER, str(target.pid)])
    wait_for(lambda: tracer_of(target.pid) == process.pid, "attached")
    yield process.pid
    process.kill()
    process.wait()
    os.kill(target.pid, signal.SIGCONT)


@pytest.mark.parametrize("probe", [pystack, gdb], ids=["pystack", "gdb"])
def test_a_process_that_runs_is_looked_at_and_runs_on(target: Target, probe: object) -> None:
    """It is not left stopped, and nobody is left attached."""
    if probe is gdb and not shutil.which("gdb"):
        pytest.skip("needs gdb")
    assert probe.available(target.pid) is None
    seen = probe.probe(target.pid, seconds=PATIENCE, all_threads=True, with_locals=False)
    (thread,) = seen["threads"]
    assert thread["main"]
    assert thread["frames"][-1][:2] == ["<module>", "<string>"]
    target.sees_it_run()
    assert tracer_of(target.pid) == 0


def test_a_stopped_process_is_left_alone(target: Target) -> None:
    """Whoever has stopped it wants it so: it is still stopped afterwards."""
    os.kill(target.pid, signal.SIGSTOP)
    wait_for(lambda: state_of(target.pid) == "T", "stopped")
    assert "stopped by a signal" in str(pystack.available(target.pid))
    with pytest.raises(ProbeFailed, match="stopped by a signal"):
        attaching.run([sys.executable, TRACER, str(target.pid)], target.pid, 1.0)
    assert state_of(target.pid) == "T"
    os.kill(target.pid, signal.SIGCONT)
    target.sees_it_run()


def test_a_traced_process_is_left_alone(target: Target, tracer: int) -> None:
    """Its debugger is named, also while it lets the process run."""
    assert f"process {tracer} (python" in str(gdb.available(target.pid))
    assert tracer_of(target.pid) == tracer


def test_a_zombie_is_left_alone() -> None:
    """It has no stack."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    wait_for(lambda: state_of(child.pid) == "Z", "ended")
    assert "zombie" in str(pystack.available(child.pid))
    child.wait()
    assert attaching.refusal(child.pid) == f"process {child.pid} is gone"


@pytest.fixture
def in_state_d(tmp_path: Path) -> Iterator[int]:
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    environment = {**os.environ, "BEHAVE_SCRATCH": str(tmp_path)}
    words = [sys.executable, PROGRAMS / "behave.py", "in_state_d"]
    process = subprocess.Popen(words, env=environment)
    wait_for(lambda: hangs_in_vfork(process.pid), "in state D")
    yield process.pid
    kill_children(process.pid)
    process.kill()
    process.wait()


def kill_children(pid: int) -> None:
    with contextlib.suppress(FileNotFoundError):  # it is a zombie by now
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)


def test_a_process_in_state_d_is_left_alone(in_state_d: int) -> None:
    """An attach would hang; and the reason says where the kernel waits."""
    assert str(pystack.available(in_state_d)).startswith("process is in state D")


def test_one_that_falls_into_state_d_meanwhile(in_state_d: int) -> None:
    """A debugger that hangs on it is killed, and the process does not stop when it comes back:
    no SIGSTOP is left pending."""
    with pytest.raises(ProbeFailed, match=r"did not end within 0\.5 s"):
        attaching.run([sys.executable, TRACER, str(in_state_d)], in_state_d, 0.5)
    assert state_of(in_state_d) == "D"
    status = Path(f"/proc/{in_state_d}/status").read_text()
    assert int(status.partition("SigPnd:")[2].split()[0], 16) == 0
    kill_children(in_state_d)
    # It comes back from vfork(), and ends.
    wait_for(lambda: state_of(in_state_d) == "Z", lambda: state_of(in_state_d))


def test_a_debugger_that_hangs_is_killed_at_its_deadline(target: Target) -> None:
    """And its target runs on, which that alone would have left stopped."""
    with pytest.raises(ProbeFailed, match=r"did not end within 1\.0 s"):
        attaching.run([sys.executable, TRACER, str(target.pid)], target.pid, 1.0)
    assert tracer_of(target.pid) == 0
    target.sees_it_run()


def test_killing_alone_would_leave_it_stopped(target: Target) -> None:
    """What the guard is there for: without it the target stands still."""
    process = subprocess.Popen([sys.executable, TRACER, str(target.pid)])
    wait_for(lambda: state_of(target.pid) == "t", "attached")
    process.kill()
    process.wait()
    wait_for(lambda: state_of(target.pid) == "T", "left stopped")


def test_the_node_is_killed_while_a_debugger_is_attached(target: Target) -> None:
    """The debugger ends, and its target runs on."""
    code = "import sys; from rankdbg.node.probes import attaching; attaching.run(sys.argv[2:], int(sys.argv[1]), 60)"
    words = [sys.executable, "-c", code, str(target.pid), sys.executable, TRACER, str(target.pid)]
    node = subprocess.Popen(words)
    tracer = wait_for(lambda: tracer_of(target.pid), "attached")
    node.kill()
    node.wait()
    wait_for(lambda: not Path(f"/proc/{tracer}").exists(), "the debugger has ended")
    target.sees_it_run()


def test_ranks_that_cannot_take_it_are_read_without(job: Job, tmp_path: Path) -> None:
    """stacks --native stops those that it may, reads the others with py-spy, and says why."""
    job.start_ranks("waits", "waits", "in_state_d", "waits", env={"BEHAVE_SCRATCH": str(tmp_path)})
    ranks = sorted(job.wait_for(lambda ranks: len(ranks) == 4), key=lambda rank: rank.number)
    pids = [rank.pid for rank in ranks]
    wait_for(lambda: hangs_in_vfork(pids[2]), "in state D")
    os.kill(pids[1], signal.SIGSTOP)
    tracer = subprocess.Popen([sys.executable, TRACER, str(pids[3])])
    wait_for(lambda: tracer_of(pids[3]) == tracer.pid and state_of(pids[3]) == "t", "traced")
    try:
        result = job.cli("stacks", "--native", "--samples", 1, "--json")
        document = json.loads(result.stdout)
        assert document["sources"] == {"0": "pystack", "1": "py-spy", "2": "py-spy", "3": "py-spy"}
        why = document["why"]
        assert why.keys() == {"1", "2", "3"}
        assert why["1"].startswith("no pystack: stopped by a signal")
        assert why["2"].startswith("no pystack: process is in state D")
        assert why["3"].startswith(f"no pystack: stopped by a debugger: process {tracer.pid}")
        assert [state_of(pid) for pid in pids[1:]] == ["T", "D", "t"]
        wait_for(lambda: state_of(pids[0]) == "S", lambda: f"state {state_of(pids[0])}")
    finally:
        tracer.kill()
        tracer.wait()


def test_ptrace_is_not_permitted(job: Job) -> None:
    """One sentence, what to change, and what works without."""
    if os.geteuid():
        pytest.skip("only root can do this")
    job.start_ranks("waits")
    job.wait_at("waits")
    without = ["setpriv", "--bounding-set=-sys_ptrace", sys.executable, "-m", "rankdbg"]
    result = subprocess.run(
        [*without, "stacks", "--job", job.name, "--native"],
        env=job.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stdout == ""
    first, *rest = result.stderr.splitlines()
    assert first.startswith("error: cannot read process ")
    assert first.endswith(": ptrace is not permitted")
    assert "  the container lacks SYS_PTRACE" in rest
    assert rest[-1] == "  hint: rankdbg stacks uses the agents, which need no permission"
