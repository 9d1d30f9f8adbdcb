"""What the kernel says of a process, asked twice."""

from __future__ import annotations

import os
import threading
import time

import pytest

from rankdbg.node.machine import processes, vitals
from rankdbg.node.machine.interruptions import Interruptions


def compute(seconds: float) -> None:
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        sum(range(1000))


def look() -> dict[str, object]:
    stat = processes.read_stat(os.getpid())
    assert stat is not None
    return vitals.look([(stat.pid, stat.start)], Interruptions())[stat.pid, stat.start]


def test_work_of_threads_that_have_ended() -> None:
    """It does not vanish with them: a rank whose workers end one by one has worked."""
    before = look()
    worker = threading.Thread(target=compute, args=(0.3,))
    worker.start()
    worker.join()
    assert look()["others"] - before["others"] > 0.2


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
