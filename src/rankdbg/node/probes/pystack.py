"""Native and Python frames in one stack, of all threads or of Python's alone, with pystack: stops the
process for about 0.1 s. Also what a core file holds.

pystack knows neither the names of Python threads nor of classes; py-spy, which does not
stop the process, provides these first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rankdbg.dumps.dumped_threads import DumpedThread
from rankdbg.dumps.pystack_text import PID, SIGNAL, parse
from rankdbg.node import offers
from rankdbg.node.probes import ProbeFailed, attaching
from rankdbg.node.probes.named_threads import ask_pyspy, dump, threads

_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from pystack.__main__ import main; main()"
)


@cache
def executable() -> str | None:
    """pystack of rankdbg's own environment, or the one on PATH, or what was sent."""
    beside = Path(sys.executable).parent / "pystack"
    found = str(beside) if beside.exists() else shutil.which("pystack")
    if found is None and (sent := _sent()):
        # Where no program may run, no library can be loaded either.
        return None if os.statvfs(sent).f_flag & os.ST_NOEXEC else sent
    if found is None:
        offers.need("pystack")
    return found


def _sent() -> str | None:
    path = os.path.join(os.environ.get("RANKDBG_LANDED", ""), "pystack/__main__.py")
    return path if os.path.isabs(path) and os.path.exists(path) else None


def _command() -> list[str]:
    program = str(executable())
    if not program.endswith(".py"):
        return [program]
    return [sys.executable, "-I", "-c", _START, os.path.dirname(os.path.dirname(program))]


def available(pid: int) -> str | None:
    if executable() is None:
        if sent := _sent():
            where = os.path.dirname(sent)
            return f"pystack was sent to {where}, where no program may run (noexec)"
        return "pystack is not installed on the node (pip install pystack)"
    return attaching.refusal(pid)


def probe(pid: int, *, seconds: float, all_threads: bool, with_locals: bool) -> dict[str, Any]:
    known = ask_pyspy(pid, seconds, with_locals)
    # The native threads of JAX and gRPC take four times as long as those of Python (3.7 s of CPU).
    which = "--native-all" if all_threads else "--native"
    words = [*_command(), "remote", "--no-color", which, str(pid)]
    dumped = dump(words, parse, pid, seconds)
    return threads(dumped, pid, all_threads=all_threads, known=known, with_locals=with_locals)


# --- core files ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Core:
    pid: int
    cause: str  # what ended the process, or ``
    threads: list[DumpedThread]


def read_core(path: Path, python: str | None, seconds: float) -> Core:
    """Raises ProbeFailed."""
    if executable() is None:
        raise ProbeFailed("pystack is not installed (pip install pystack)")
    words = [*_command(), "core", "--no-color", "--native-all", str(path)]
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
        raise ProbeFailed(f"pystack did not finish within {seconds:.0f} s") from None
    dumped = list(parse(ran.stdout))
    if not dumped:
        lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
        raise ProbeFailed(f"pystack cannot read it: {lines[-1] if lines else 'no reason given'}")
    pid, signal = PID.search(ran.stdout), SIGNAL.search(ran.stdout)
    return Core(int(pid[1]) if pid else 0, signal[1] if signal else "", dumped)
