"""What the agent costs the program that it sits in: start, memory, a training loop's speed.

The peer is bare Python: the same program without RANKDBG=1. The loop is measured in slices,
by two processes that take turns. For a loop that is looked at ten times a second through its
agent, the peer is `py-spy dump` of the bare one, as often.
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

from _measuring import BIN, begin, command, medians, milliseconds, processor_time, table

from rankdbg.session import Session

STARTS, SLICES, LOOKED_AT = 40, 150, 20
LOOKS_EVERY = 0.1
Speeds = tuple[float, float]
BUDGETS = "15 ms, 3 MB, and 0.5 % of a loop's steps at 1,000 steps/s"
PEAK = "print(next(line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line))"


def run_loop(steps: int) -> None:
    """A slice of so many steps for each line on stdin; back come its steps for a second of time
    and of processor time. A step takes about a millisecond: some Python, and some C that gives
    the GIL away."""
    weights, data = [1.0] * 10_000, bytes(1_000_000)
    for _ in sys.stdin:
        begun = time.perf_counter(), time.process_time()
        for _ in range(steps):
            total = 0.0
            for weight in weights:
                total += weight * 0.5
            zlib.crc32(data)
        ended = time.perf_counter(), time.process_time()
        print(*(steps / (end - start) for start, end in zip(begun, ended, strict=True)), flush=True)


class Loop:
    def __init__(self, steps: int, **variables: str) -> None:
        words = [sys.executable, __file__, str(steps)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(words, env={**os.environ, **variables}, **pipes)

    def speeds(self, look: Callable[[], object] | None = None) -> Speeds:
        """Of one slice; with `look`, while someone looks at the loop again and again."""
        ended = threading.Event()

        def keep_looking() -> None:
            due = time.monotonic()
            while not ended.wait(max(0.0, due - time.monotonic())):
                look()
                due += LOOKS_EVERY

        looker = threading.Thread(target=keep_looking)
        if look:
            looker.start()
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        elapsed, processor = map(float, self.process.stdout.readline().split())
        ended.set()
        if look:
            looker.join()
        return elapsed, processor


def compare(slices: int, peer: Callable[[], Speeds], ours: Callable[[], Speeds]) -> list[str]:
    """The medians, and the median of what each slice lost against the peer's just before."""
    pairs = [(peer(), ours()) for _ in range(slices)]
    speeds = [statistics.median(elapsed for elapsed, _ in column) for column in zip(*pairs)]
    losses = [
        statistics.median(1 - mine[clock] / theirs[clock] for theirs, mine in pairs)
        for clock in (0, 1)
    ]
    return [*(f"{speed:.0f} steps/s" for speed in speeds), *(f"{loss:+.2%}" for loss in losses)]


def measure_start(*both: dict[str, str]) -> None:
    starts = [command(sys.executable, "-c", "pass", **variables) for variables in both]
    elapsed = medians(STARTS, *starts)
    processor = medians(STARTS, *starts, clock=processor_time)
    peak = [
        int(subprocess.check_output([sys.executable, "-c", PEAK], env={**os.environ, **variables}))
        for variables in both
    ]
    rows = [["", "bare", "with agent", "more"]]
    for name, (bare, ours) in (("python -c pass", elapsed), ("  its processor time", processor)):
        rows.append([name, *map(milliseconds, (bare, ours, ours - bare))])
    sizes = [f"{size / 1024:.1f} MB" for size in (*peak, peak[1] - peak[0])]
    table([*rows, ["  its peak memory", *sizes]])


def measure_loop(*both: dict[str, str]) -> None:
    short = [Loop(100, **variables) for variables in both]
    bare, ours = long = [Loop(500, **variables) for variables in both]
    with Session() as session:
        idle = compare(SLICES, *(loop.speeds for loop in short))
        ranks = [rank for rank in session.job("bench") if rank.pid == ours.process.pid]
        asked = compare(LOOKED_AT, bare.speeds, lambda: ours.speeds(lambda: session.stacks(ranks)))
        spy = command(BIN / "py-spy", "dump", "--pid", bare.process.pid)
        spied = compare(LOOKED_AT, bare.speeds, lambda: bare.speeds(spy))
    for loop in (*short, *long):
        loop.process.communicate()
    rows = [
        ["", "bare", "", "lost", "in processor time"],
        ["a loop with the agent", *idle],
        ["  asked for its stacks 10 times a second", *asked],
        ["the bare loop under py-spy dump, as often", *spied],
    ]
    table(rows)


def main() -> None:
    begin("the agent's cost", BUDGETS)
    with tempfile.TemporaryDirectory(prefix="rankdbg-bench-") as directory:
        os.environ["RANKDBG_DIR"] = directory
        both = ({"RANKDBG": "0"}, {"RANKDBG": "1", "RANKDBG_JOB": "bench"})
        measure_start(*both)
        measure_loop(*both)


if __name__ == "__main__":
    run_loop(int(sys.argv[1])) if sys.argv[1:] else main()
