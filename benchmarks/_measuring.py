"""What the benchmarks share: medians of runs that take turns, a job of real ranks, a table."""

from __future__ import annotations

import compileall
import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import rankdbg
from rankdbg.types import Rank

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from jobs import PROGRAMS, Job  # noqa: E402 - the tests' folder is no package

Clock = Callable[[], float]
BIN = Path(sys.executable).parent
PATIENCE = 180.0  # 500 ranks on two cores that others load too


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
    """The median seconds of each. They take turns, so that a load from elsewhere hits all."""
    for work in works:
        work()  # what is read for the first time comes from the disk
    taken = [[seconds(work, clock) for work in works] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*taken, strict=True)]


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


def waiting_job(world: int) -> contextlib.AbstractContextManager[tuple[Job, list[Rank]]]:
    """A job in which all ranks wait, every 64th somewhere else. Ended by pid."""
    behaviours = ["waits"] * (min(world, 64) - 1) + ["waits_elsewhere"]
    return _job(world, "behave.py", *behaviours)


def stopped_job(world: int) -> contextlib.AbstractContextManager[tuple[Job, list[Rank]]]:
    """A job in which all ranks stand at a breakpoint. Ended by pid."""
    return _job(world, "stops.py", "steps")


@contextlib.contextmanager
def _job(world: int, *words: str) -> Iterator[tuple[Job, list[Rank]]]:
    program = [PROGRAMS / "launch.py", world, PROGRAMS / words[0], *words[1:]]
    with tempfile.TemporaryDirectory(prefix="rankdbg-bench-") as scratch:
        job = Job(f"bench-{os.getpid()}", Path(scratch))
        try:
            launched = job.start(sys.executable, *program)
            yield job, _arrived(job, launched, world)
        finally:
            job.end()


def _is_there(rank: Rank) -> bool:
    return rank.where is not None and rank.where.function in ("waits", "waits_elsewhere", "steps")


def _arrived(job: Job, launched: subprocess.Popen[str], world: int) -> list[Rank]:
    deadline = time.monotonic() + PATIENCE
    with job.session() as session:
        while time.monotonic() < deadline and launched.poll() is None:
            ranks = session.roster(where=False).jobs().get(job.name, [])
            at = [rank for rank in ranks if _is_there(rank)]
            if len(at) == world:
                return ranks
            time.sleep(0.2)  # they need the processors more than we do
    sys.exit(f"{world} ranks did not start in {PATIENCE:.0f} s")
