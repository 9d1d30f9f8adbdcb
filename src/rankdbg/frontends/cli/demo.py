"""A small real job that hangs, and what rankdbg says about it.

Eight processes train together over a ring of sockets; in one of them a read does not
return, and the others wait. Nothing is simulated. With --keep the job keeps running, so that
you can try the other verbs on it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rankdbg import _version
from rankdbg.errors import RankdbgError
from rankdbg.frontends import cli
from rankdbg.frontends.terminal import Terminal

WORLD = 8
MESH = "dp=4,tp=2"
SECONDS_TO_HANG = 30.0
PAUSE = 0.2  # between two polls: ranks that are starting need the CPU


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="keep the job running")


def run(options: argparse.Namespace) -> int:
    from rankdbg.session.patience import find_patience

    find_patience()  # report an error in it now, not when the job runs
    terminal = Terminal()
    job = f"demo-{os.urandom(2).hex()}"
    with _job_that_hangs(terminal, job, options.keep) as launcher:
        _wait_until_it_hangs(job)
        terminal.print(f"rankdbg: job {job}; look at it with: rankdbg ps --job {job}")
        ranks = ("--job", job)
        _show(terminal, "ps", *ranks)
        _show(terminal, "stacks", *ranks)
        _show(terminal, "ask", "all", "step", "--frame", "main", *ranks)
        _show(terminal, "why", *ranks)
        if options.keep:
            terminal.print()
            terminal.print(f"The job keeps running: rankdbg ps --job {job}")
            terminal.print(f"End it with:           kill {launcher.pid}")
    return 0


@contextmanager
def _job_that_hangs(terminal: Terminal, job: str, keep: bool) -> Iterator[subprocess.Popen[bytes]]:
    # A copy: the job must not look like a part of rankdbg.
    place = Path(tempfile.mkdtemp(prefix="rankdbg-demo-"))
    for path in (Path(_version.__file__).parent / "demo").glob("[a-z]*.py"):
        shutil.copy(path, place)
    command = ["run", "--mesh", MESH, "--job", job, "--"]
    command += [Path(sys.executable).name, "launch.py", str(WORLD), str(place)]
    terminal.print(terminal.bold(f"$ rankdbg {shlex.join(command[:-1])} …"))
    command[6] = sys.executable
    # Its output goes to a file: a job that is kept must not hold the caller's pipe open.
    with (place / "log").open("wb") as log:
        launcher = subprocess.Popen(
            [sys.executable, "-m", "rankdbg", *command],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": _with_package()},
        )
    finished = False
    try:
        yield launcher
        finished = True
    finally:
        if not (keep and finished):
            launcher.send_signal(signal.SIGTERM)
            launcher.wait()
            shutil.rmtree(place, ignore_errors=True)


def _with_package() -> str:
    """A PYTHONPATH with which the job imports this rankdbg."""
    here = str(Path(_version.__file__).resolve().parents[1])
    return os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))


def _wait_until_it_hangs(job: str) -> None:
    """Until all ranks have started and none of them moves."""
    from rankdbg.investigations.stacks.merged_stacks import MergedStacks
    from rankdbg.session import Session

    deadline = time.monotonic() + SECONDS_TO_HANG
    with Session() as session:
        while time.monotonic() < deadline:
            ranks = session.roster(where=False).jobs().get(job, [])
            if len(ranks) < WORLD:
                time.sleep(PAUSE)
                continue
            seen, silent = session.stacks(ranks, samples=2, interval=0.2)
            merged = MergedStacks(seen, silent, ranks)
            if merged.odd and not any(stack.moving for stack in merged.stacks):
                return
    raise RankdbgError("the demo's job did not start in time", hint="try again: rankdbg demo")


def _show(terminal: Terminal, *words: str) -> None:
    terminal.print()
    terminal.print(terminal.bold(f"$ rankdbg {shlex.join(words)}"))
    sys.stdout.flush()
    cli.dispatch(list(words))
