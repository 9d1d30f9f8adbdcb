"""What the benchmarks share: runs that take turns, their medians, a table."""

from __future__ import annotations

import compileall
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import rankdbg

Clock = Callable[[], float]
BIN = Path(sys.executable).parent


def begin(title: str, budget: str = "") -> None:
    """Says on what the figures were taken, and puts the bytecode where pip would put it: with
    PYTHONDONTWRITEBYTECODE a tree that has just been edited is compiled in every process."""
    compileall.compile_dir(str(Path(rankdbg.__file__).parent), quiet=2)
    print(title + (f"; budget: {budget}" if budget else ""))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"{os.cpu_count()} cores, load {load}; Python {version}")


def processor_time() -> float:
    """The processor time of all children that have ended: what a busy machine changes least."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds(work: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


def medians(
    rounds: int, *works: Callable[[], object], clock: Clock = time.perf_counter
) -> list[float]:
    """The median seconds of each."""
    return [statistics.median(taken) for taken in take_turns(rounds, *works, clock=clock)]


def take_turns(
    rounds: int, *works: Callable[[], object], clock: Clock = time.perf_counter
) -> list[tuple[float, ...]]:
    """The seconds of each in every round. They take turns: a load from elsewhere hits all."""
    for work in works:
        work()  # what is read for the first time comes from the disk
    taken = [[seconds(work, clock) for work in works] for _ in range(rounds)]
    return list(zip(*taken, strict=True))


def command(*words: object, **variables: str) -> Callable[[], object]:
    """A program from its start to its end, its output thrown away."""
    environment = {**os.environ, **variables}

    def run() -> None:
        subprocess.run([*map(str, words)], env=environment, check=True, capture_output=True)

    return run


def milliseconds(value: float) -> str:
    return f"{value * 1000:.1f} ms"


def table(rows: Sequence[Sequence[str]]) -> None:
    """The first column to the left, figures to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for first, *others in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join([f"{first:{widths[0]}}", *cells]).rstrip(), flush=True)
