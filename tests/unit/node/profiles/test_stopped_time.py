"""For what share of the time a process stands still: a real one, in a real debugger's hands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from rankdbg.node.machine.processes import read_stat
from rankdbg.node.profiles.stopped_time import Standstill
from waiting import wait_for

# Seizes the process, stops it, says so, and lets go when its input ends.
TRACER = """
import ctypes, os, sys
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[1])
if ptrace(16, pid, None, None):  # PTRACE_ATTACH
    sys.exit("ptrace is not permitted")
os.waitpid(pid, 0x40000000)
print("stopped", flush=True)
sys.stdin.read()
ptrace(17, pid, None, None)  # PTRACE_DETACH
"""


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def test_who_is_not_stopped_is_not_seen_so(sleeper: int) -> None:
    """And neither is one that is gone."""
    watched = Standstill([sleeper, 2**22 + 1])
    wait_for(lambda: watched.looks > 5, "looks")
    assert watched.end() == {sleeper: 0.0, 2**22 + 1: 0.0}


def test_who_is_stopped_is_seen_so(sleeper: int) -> None:
    """For as long as the debugger has it."""
    words = [sys.executable, "-c", TRACER, str(sleeper)]
    with subprocess.Popen(words, stdin=-1, stdout=-1, text=True) as tracer:
        assert tracer.stdout is not None
        if tracer.stdout.readline() != "stopped\n":
            pytest.skip("needs ptrace")
        watched = Standstill([sleeper])
        wait_for(lambda: watched.looks > 5, "looks")
        assert watched.end() == {sleeper: 1.0}
        tracer.communicate()
    wait_for(lambda: (stat := read_stat(sleeper)) is not None and stat.state == "S", "it sleeps")
