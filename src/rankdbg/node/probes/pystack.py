"""Native and Python frames in one stack, of all threads, with pystack: stops the process for
about 0.1 s. Also what a core file holds.

pystack knows neither the names of Python's threads nor of classes; py-spy, which stops
nobody, is asked for these first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rankdbg.node import attaching
from rankdbg.node.dumped_threads import DumpedThread, ask_pyspy, dump, threads
from rankdbg.node.native_frames import NativeFrame
from rankdbg.node.probes import ProbeFailed


@cache
def executable() -> str | None:
    beside = Path(sys.executable).parent / "pystack"
    return str(beside) if beside.exists() else shutil.which("pystack")


def available(pid: int) -> str | None:
    if executable() is None:
        return "pystack is not installed there (pip install pystack)"
    return attaching.refusal(pid)


def probe(pid: int, *, seconds: float, all_threads: bool, with_locals: bool) -> dict[str, Any]:
    known = ask_pyspy(pid, seconds, with_locals)
    words = [str(executable()), "remote", "--no-color", "--native-all", str(pid)]
    dumped = dump(words, parse, pid, seconds)
    return threads(dumped, pid, all_threads=all_threads, known=known, with_locals=with_locals)


# --- what pystack prints ------------------------------------------------------------------


_HEAD = re.compile(
    r"Traceback for thread (\d+)(?: \((.*?)\))? (?:\[(.*)\] )?\(most recent call last\):$"
)
_INTERPRETER = re.compile(r"  (?:In |Not currently attached).*\[(.*)\]$")
_FRAME = re.compile(r'    \((Python|C)\) File "(.*)", line (-?\d+), in (.*)$')
_UNKNOWN = ("???", "")


def parse(text: str) -> Iterator[DumpedThread]:
    thread: DumpedThread | None = None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            if thread:
                yield thread
            thread = DumpedThread(int(head[1]), head[2] or "thread", head[3] or "")
        elif thread and (said := _INTERPRETER.match(line)):
            thread.status = said[1]
        elif thread and (frame := _FRAME.match(line)):
            kind, file, number, rest = frame.groups()
            thread.frames.insert(0, _frame(kind, file, max(0, int(number)), rest))
    if thread:
        yield thread


def _frame(kind: str, file: str, line: int, rest: str) -> NativeFrame:
    if kind == "Python":
        return NativeFrame(rest, file, line, python=True)
    function, _, library = rest.rpartition(" (")
    library = library.removesuffix(")")
    source = "" if file in _UNKNOWN or file == library else file
    return NativeFrame(function.removesuffix(" (inlined)"), source, line, library)


# --- core files ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Core:
    pid: int
    cause: str  # what ended the process, or ``
    threads: list[DumpedThread]


_PID = re.compile(r"^\s*pid: (\d+)", re.MULTILINE)
_SIGNAL = re.compile(r"The process died due receiving signal (.*)")


def read_core(path: Path, python: str | None, seconds: float) -> Core:
    """Raises ProbeFailed."""
    if executable() is None:
        raise ProbeFailed("pystack is not installed (pip install pystack)")
    words = [str(executable()), "core", "--no-color", "--native-all", str(path)]
    environment = {**os.environ, "RANKDBG": "0", "DEBUGINFOD_URLS": ""}
    try:
        ran = subprocess.run(
            [*words, *([python] if python else [])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise ProbeFailed(f"pystack did not come to its end within {seconds:.0f} s") from None
    dumped = list(parse(ran.stdout))
    if not dumped:
        lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
        raise ProbeFailed(f"pystack cannot read it: {lines[-1] if lines else 'no reason given'}")
    pid, signal = _PID.search(ran.stdout), _SIGNAL.search(ran.stdout)
    return Core(int(pid[1]) if pid else 0, signal[1] if signal else "", dumped)
