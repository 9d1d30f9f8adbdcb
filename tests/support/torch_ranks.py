"""Ranks with torch that need not load it: one process has, and they are forks of that."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"
# Without loading it in each process of the tests.
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


def fork_ranks(*words: object) -> list[str]:
    """A command that is `fork_ranks.py WORD...`, for which this process of the tests loads torch
    once: that takes a processor for seconds."""
    # Without site it starts at once, and has no agent of its own.
    client = ["sh", "-c", 'exec "$0" -S "$@"', sys.executable, str(PROGRAMS / "torch_server.py")]
    return [*client, str(_server().place), *map(str, words)]


class _Server:
    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="torch-")) / "socket"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RANKDBG")}
        self._process = subprocess.Popen(
            [sys.executable, PROGRAMS / "fork_ranks.py", "--serve", self.place],
            env={**environment, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,  # with which it ends
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"serves\n"


_server = functools.cache(_Server)
