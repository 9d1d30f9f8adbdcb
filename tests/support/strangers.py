"""Another user of this machine, for tests that run as root."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

STRANGER = 64331

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def as_stranger(code: str, *words: object, **settings: Any) -> subprocess.Popen[str]:
    """A program of the other user's, in a Python that every user may run."""
    python = next(p for p in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(p).exists())
    return subprocess.Popen(
        [python, "-c", textwrap.dedent(code), *map(str, words)],
        env={"PATH": os.environ["PATH"], **settings.pop("env", {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        **settings,
    )


@contextmanager
def stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    """A server gets no processor while others come and go."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@contextmanager
def public_place() -> Iterator[Path]:
    """A directory that every user can enter. (pytest closes its own ones for others again, when
    another pytest begins.)"""
    with tempfile.TemporaryDirectory(prefix="rankdbg-test-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def open_up(path: Path) -> None:
    """Let everybody walk down to here. (pytest's own directories are for one user.)"""
    for parent in path.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
