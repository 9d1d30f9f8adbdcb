"""What the agent costs a training loop, left alone and looked at ten times a second.

The peer is the same loop without RANKDBG=1, alone and under `py-spy dump`, as often. The loops
are processes that take turns, slice by slice. Two processes of the same program differ by some
per cent (where their memory lies), so each round starts new ones, and a second bare loop shows
what of the figures is chance.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable

from _measuring import BIN, begin, command, table

from rankdbg.session import Session

ROUNDS, SLICES, STEPS = 12, 6, 200
LOOKS_EVERY = 0.1
JOB = f"bench-{os.getpid()}"


def run_loop() -> None:
    """A slice for each line on stdin; back come its steps for a second of time and of processor
    time. A step takes a millisecond: some Python, and some C that gives the GIL away."""
    weights, data = [1.0] * 10_000, bytes(1_000_000)
    for _ in sys.stdin:
        begun = time.perf_counter(), time.process_time()
        for _ in range(STEPS):
            total = 0.0
            for weight in weights:
                total += weight * 0.5
            zlib.crc32(data)
        ended = time.perf_counter(), time.process_time()
        print(*(STEPS / (end - start) for start, end in zip(begun, ended, strict=True)), flush=True)


class Loop:
    def __init__(self, **variables: str) -> None:
        words = [sys.executable, __file__, "--loop"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(words, env={**os.environ, **variables}, **pipes)

    def speeds(self) -> list[float]:
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]

    def speeds_while(self, look: Callable[[], object]) -> list[float]:
        ended = threading.Event()

        def keep_looking() -> None:
            due = time.monotonic()
            while not ended.wait(max(0.0, due - time.monotonic())):
                look()
                due += LOOKS_EVERY

        looker = threading.Thread(target=keep_looking)
        looker.start()
        speeds = self.speeds()
        ended.set()
        looker.join()
        return speeds


def measure_round(session: Session) -> list[list[float]]:
    """The median speeds of each case of a round, in the order of the table's rows."""
    bare, other = Loop(RANKDBG="0"), Loop(RANKDBG="0")
    ours = Loop(RANKDBG="1", RANKDBG_JOB=JOB)
    for loop in (bare, other, ours):
        loop.speeds()  # by then it has started
    ranks = session.job(JOB)
    spy = command(BIN / "py-spy", "dump", "--pid", bare.process.pid)
    cases: list[Callable[[], list[float]]] = [bare.speeds, other.speeds, ours.speeds]
    cases.append(lambda: ours.speeds_while(lambda: session.stacks(ranks)))
    cases.append(lambda: bare.speeds_while(spy))
    taken = [[case() for case in cases] for _ in range(SLICES)]
    for loop in (bare, other, ours):
        loop.process.communicate()
    by_case = zip(*taken, strict=True)
    return [[statistics.median(column) for column in zip(*case, strict=True)] for case in by_case]


def row(name: str, rounds: list[list[list[float]]], case: int, against: int) -> list[str]:
    elapsed, processor = (
        sorted(1 - figures[case][clock] / figures[against][clock] for figures in rounds)
        for clock in (0, 1)
    )
    speed = statistics.median(figures[case][0] for figures in rounds)
    losses = [f"{statistics.median(loss):+.2%}" for loss in (elapsed, processor)]
    return [name, f"{speed:.0f}", *losses, f"{processor[2]:+.1%} to {processor[-3]:+.1%}"]


def main() -> None:
    begin("a loop at 1,000 steps/s", "it loses under 0.5 % with the agent")
    with tempfile.TemporaryDirectory(prefix="rankdbg-bench-") as directory:
        os.environ["RANKDBG_DIR"] = directory
        with Session() as session:
            rounds = [measure_round(session) for _ in range(ROUNDS)]
    rows = [
        ["", "steps/s", "lost", "in processor time", "most rounds"],
        row("bare", rounds, 0, 0),
        row("another bare one", rounds, 1, 0),
        row("with the agent", rounds, 2, 0),
        row("  asked for its stacks 10 times a second", rounds, 3, 2),
        row("bare, py-spy dump 10 times a second", rounds, 4, 0),
    ]
    table(rows)


if __name__ == "__main__":
    run_loop() if sys.argv[1:] else main()
