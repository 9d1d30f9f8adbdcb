"""What the kernel says of a process, asked twice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rankdbg.node.machine import processes, vitals
from rankdbg.node.machine.interruptions import Interruptions


def compute(seconds: float) -> None:
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        sum(range(1000))


def look(pid: int = 0) -> dict[str, Any]:
    stat = processes.read_stat(pid or os.getpid())
    assert stat is not None
    return vitals.look([(stat.pid, stat.start)], Interruptions())[stat.pid, stat.start]


def test_work_of_threads_that_have_ended() -> None:
    """It does not vanish with them: a rank whose workers end one by one has worked."""
    before = look()
    worker = threading.Thread(target=compute, args=(0.3,))
    worker.start()
    worker.join()
    assert look()["others"] - before["others"] > 0.2


LEAVES_A_ZOMBIE = """
import os, sys
child = os.fork()
if child == 0:
    open("/proc/self/comm", "w").write(sys.argv[1])
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print("ended", flush=True)
sys.stdin.read()
"""


@contextmanager
def leaving_a_zombie(name: str) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", LEAVES_A_ZOMBIE, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ended\n"
        yield process.pid


@pytest.mark.parametrize(("name", "found"), [("NvDebugAgent", []), ("worker", ["worker"])])
def test_what_cuda_gdb_leaves_is_no_child(name: str, found: list[str]) -> None:
    with leaving_a_zombie(name) as pid:
        children = look(pid)["children"]
    assert [child["name"] for child in children] == found


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["/opt/a/bin/python3", "-u", "/home/me/train.py", "--lr", "3"], "python3 -u train.py --lr 3"),
        (["python3", "-c", "import os\n\nos.abort()"], "python3 -c import os os.abort()"),
        (["bash", "/"], "bash /"),
        (["/bin/python3", *["--long"] * 50], ("python3" + " --long" * 50)[:80]),
        ([""], ""),
    ],
)  # fmt: skip
def test_commands_in_a_line(words: list[str], shown: str) -> None:
    """Without folders, which may be longer than the line, and without the ends of lines."""
    assert processes.short_command(words) == shown
