"""What a profile costs the rank that is profiled, 100 samples a second, from outside.

The peer is `py-spy record` as its users call it, which stops the process at each sample. The
loops are processes that take turns, slice by slice, in new ones each round; a second bare loop
shows what of the figures is chance. A slice's time is that on the processor, that in which others
had the processors (the kernel counts both), and the rest, in which the process was stopped. So
`stopped` means something on a machine that is busy otherwise too, where steps a second do not.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from _measuring import BIN, begin, table

from rankdbg.session import Session
from rankdbg.types import Rank
from rankdbg.wire.node_questions import BeginProfile, EndProfile

ROUNDS, SLICES, STEPS = 4, 3, 300
LONG = 600
JOB = f"bench-{os.getpid()}"


def run_loop() -> None:
    """A slice for each line on stdin; back come its steps for a second of processor time, and
    the share of the time in which it was stopped."""
    weights, data = [1.0] * 10_000, bytes(1_000_000)
    for _ in sys.stdin:
        begun = look()
        for _ in range(STEPS):
            total = 0.0
            for weight in weights:
                total += weight * 0.5
            zlib.crc32(data)
        elapsed, processor, ready = (end - start for start, end in zip(begun, look(), strict=True))
        print(STEPS / processor, (elapsed - processor - ready) / elapsed, flush=True)


def look() -> tuple[float, float, float]:
    with open("/proc/self/schedstat") as file:
        processor, ready, _ = (int(word) / 1e9 for word in file.read().split())
    return time.perf_counter(), processor, ready


class Loop:
    def __init__(self, **variables: str) -> None:
        words = [sys.executable, __file__, "--loop"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(words, env={**os.environ, **variables}, **pipes)

    def measure(self) -> list[float]:
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]


@contextmanager
def nobody() -> Iterator[None]:
    yield


@contextmanager
def ours(session: Session, ranks: list[Rank], **settings: object) -> Iterator[None]:
    arguments = {"kind": "cpu", "seconds": LONG, **settings}
    (begun,) = session.ask(BeginProfile(**arguments), ranks, 20)
    assert not hasattr(begun, "reason"), begun
    yield
    session.ask(EndProfile(kind="cpu"), ranks, 20)


@contextmanager
def spied(pid: int, *options: str) -> Iterator[None]:
    words = [BIN / "py-spy", "record", "--pid", str(pid), "--duration", str(LONG), "--rate", "100"]
    words += ["--format", "raw", "--output", os.devnull, "--threads", "--idle", *options]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdout is not None
    child.stdout.readline()  # "Sampling process ..."
    yield
    child.kill()
    child.wait()
    os.kill(pid, 18)  # SIGCONT: killed while it had stopped it


def measure_round(session: Session) -> list[tuple[float, float]]:
    bare, other, rank = Loop(RANKDBG="0"), Loop(RANKDBG="0"), Loop(RANKDBG="1", RANKDBG_JOB=JOB)
    for loop in (bare, other, rank):
        loop.measure()
    ranks = session.job(JOB)
    pid = bare.process.pid
    cases: list[tuple[Loop, Callable[[], object]]] = [
        (bare, nobody),
        (other, nobody),
        (rank, nobody),
        (rank, lambda: ours(session, ranks, rate=100)),
        (rank, lambda: ours(session, ranks, rate=20, native=True)),
        (bare, lambda: spied(pid, "--nonblocking")),
        (bare, lambda: spied(pid)),
        (bare, lambda: spied(pid, "--native")),
    ]
    taken = [[_measure(loop, beside) for loop, beside in cases] for _ in range(SLICES)]
    for loop in (bare, other, rank):
        loop.process.communicate()
    by_case = zip(*taken, strict=True)
    return [tuple(map(statistics.median, zip(*case, strict=True))) for case in by_case]


def _measure(loop: Loop, beside: Callable[[], object]) -> list[float]:
    """Of the second slice: in the first, py-spy reads symbols with --native, once."""
    with beside():  # type: ignore[attr-defined]
        loop.measure()
        return loop.measure()


def main() -> None:
    begin("a loop at 1,000 steps/s under a profile", "it loses under 1 % at 100 Hz")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rankdbg-bench-") as directory:
        os.environ["RANKDBG_DIR"] = directory
        with Session() as session:
            rounds = [measure_round(session) for _ in range(ROUNDS)]
    names = {
        "bare": 0,
        "another bare one": 0,
        "with the agent": 2,
        "rankdbg profile, 100 Hz": 2,
        "rankdbg profile --native, 20 Hz": 2,
        "py-spy record --nonblocking, 100 Hz": 0,
        "py-spy record, 100 Hz": 0,
        "py-spy record --native, 100 Hz": 0,
    }
    rows = [["", "steps a processor second", "lost", "stopped"]]
    for case, (name, against) in enumerate(names.items()):
        losses = [1 - figures[case][0] / figures[against][0] for figures in rounds]
        speed, stopped = (statistics.median(f[case][i] for f in rounds) for i in (0, 1))
        rows.append([name, f"{speed:.0f}", f"{statistics.median(losses):+.2%}", f"{stopped:.2%}"])
    table(rows)
    print(f"{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    run_loop() if sys.argv[1:] else main()
