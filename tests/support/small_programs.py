"""Small programs that print a list of numbers and then wait for something."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def running(code: str, *words: object) -> Iterator[list[int]]:
    """The numbers that it has printed. It ends with the block, and all that it has started."""
    started = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert started.stdout is not None
        yield json.loads(started.stdout.readline())
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
