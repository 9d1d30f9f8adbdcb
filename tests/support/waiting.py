"""Waiting for what real processes do: never a sleep and a hope, always a look and a deadline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# The one number: how long a test waits for one thing, where a process may get no processor for
# seconds at a time. All other limits follow from it.
PATIENCE = 120.0
TEST_SECONDS = 2.5 * PATIENCE  # pytest's limit for a test
ANSWER_SECONDS = PATIENCE / 4  # the time limit of the commands and sessions that tests open


def wait_for(look: Callable[[], T | None], what: object = "", seconds: float = PATIENCE) -> T:
    """What look() returns, as soon as that is something. `what`, or what it returns when it is
    called, tells in the failure what was waited for, or seen instead."""
    begun = looked = time.monotonic()
    while not (seen := look()):
        now = time.monotonic()
        waited, took = now - begun, now - looked
        if waited > seconds:
            told = what() if callable(what) else what
            raise AssertionError(f"never happened: {told or look}")
        # What is waited for needs the processor too, also while commands are started to look at
        # it; and what takes long may be seen late.
        time.sleep(max(0.005, min(waited / 20, 0.2), min(took, 1.0)))
        looked = time.monotonic()
    return seen


def processes_beside(pid: int, word: str) -> list[int]:
    """The processes in the PID namespace of that one with a word in their command line."""
    namespace = os.readlink(f"/proc/{pid}/ns/pid")
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            inside = os.readlink(entry / "ns/pid") == namespace
            if inside and word.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return found
