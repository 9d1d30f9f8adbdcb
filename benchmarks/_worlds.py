"""Jobs of many real ranks on this machine, and the benchmarks that measure several sizes."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from _measuring import begin

from rankdbg.types import Rank

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests/support"))

from jobs import PROGRAMS, Job  # noqa: E402 - the tests' folder is no package

PATIENCE = 300.0  # 1,000 ranks on two cores that others load too


def measure_worlds(
    measure: Callable[[int, int], None],
    description: str | None,
    title: str,
    worlds: Sequence[int],
    rounds: int,
) -> None:
    """The command line of a benchmark: `measure` gets each number of ranks, and the rounds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("worlds", metavar="RANKS", nargs="*", type=int, default=worlds)
    parser.add_argument("--rounds", type=int, default=rounds)
    options = parser.parse_args()
    begin(f"{title}, {options.rounds} rounds")
    for world in options.worlds:
        measure(world, options.rounds)


def waiting_job(world: int) -> contextlib.AbstractContextManager[tuple[Job, list[Rank]]]:
    """A job in which all ranks wait, every 64th somewhere else. Ended by pid."""
    behaviours = ["waits"] * (min(world, 64) - 1) + ["waits_elsewhere"]
    return _job(world, PROGRAMS / "launch.py", world, PROGRAMS / "behave.py", *behaviours)


def stopped_job(world: int) -> contextlib.AbstractContextManager[tuple[Job, list[Rank]]]:
    """A job in which all ranks stand at a breakpoint. Ended by pid."""
    return _job(world, HERE / "_launcher.py", world, HERE / "_stopped_rank.py")


def hung_torch_job(world: int) -> contextlib.AbstractContextManager[tuple[Job, list[Rank]]]:
    """A job in which rank 0 waits in an all_reduce of gloo for all others. Ended by pid."""
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", world)
    return _job(world, *torchrun, PROGRAMS / "native_torch.py")


@contextlib.contextmanager
def _job(world: int, *program: object) -> Iterator[tuple[Job, list[Rank]]]:
    with tempfile.TemporaryDirectory(prefix="rankdbg-bench-") as scratch:
        job = Job(f"bench-{os.getpid()}", Path(scratch))
        try:
            launched = job.start(sys.executable, *program)
            yield job, arrive(job, launched, world)
        finally:
            job.end()


def _is_there(rank: Rank) -> bool:
    return rank.where is not None and rank.where.function in _PLACES


_PLACES = ("waits", "waits_elsewhere", "steps", "train_step")


def arrive(job: Job, launched: subprocess.Popen[str], world: int) -> list[Rank]:
    deadline = time.monotonic() + PATIENCE
    with job.session(timeout=PATIENCE) as session:
        while time.monotonic() < deadline and launched.poll() is None:
            begun = time.monotonic()
            ranks = session.roster(where=False).jobs().get(job.name, [])
            at = [rank for rank in ranks if _is_there(rank)]
            if len(at) == world:
                return ranks
            # They need the processors more than we do.
            time.sleep(max(0.2, 4 * (time.monotonic() - begun)))
    sys.exit(f"{world} ranks did not start in {PATIENCE:.0f} s")
