"""What the history of a rank costs a training step of 10 ms: two all_reduces, a step and a mark.
The peer is the same program under the same agent without a history (RANKDBG_HISTORY=0)."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from _measuring import begin, table

ROUNDS = 7
PROGRAM = """
import time, torch, torch.distributed as dist, rankdbg
rankdbg.init()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
total, weights = torch.ones(1000), torch.ones(300, 300)

def steps(count):
    for step in range(count):
        rankdbg.progress(step)
        until = time.thread_time() + 0.0095
        while time.thread_time() < until:
            weights.mul_(1.0)
        dist.all_reduce(total)
        rankdbg.mark("accepted", step)
        dist.all_reduce(total)

def calls(count):
    begun = time.thread_time()
    for step in range(count):
        rankdbg.progress(step)
        dist.all_reduce(total)
        rankdbg.mark("accepted", step)
        dist.all_reduce(total)
    return (time.thread_time() - begun) / count

steps(30)
torch.set_num_threads(1)
print(min(calls(300) for _ in range(10)))
"""


def measure(history: str, directory: str) -> float:
    """Seconds of processor time of what a step tells other ranks and us."""
    variables = {"RANKDBG_HISTORY": history, "RANKDBG_DIR": directory}
    words = [sys.executable, "-c", PROGRAM]
    return float(subprocess.check_output(words, env={**os.environ, **variables}, text=True))


def main() -> None:
    begin(f"a history, {ROUNDS} rounds", "0.5 % of a training step of 10 ms")
    taken: dict[str, list[float]] = {"0": [], "1": []}
    with tempfile.TemporaryDirectory(prefix="rankdbg-bench-") as directory:
        for _ in range(ROUNDS):
            for history, seconds in taken.items():
                seconds.append(measure(history, directory))
    rows = [["two all_reduces, a step, a mark", "without", "with history", "more", "of 10 ms"]]
    for name, choose in (("median", statistics.median), ("best", min)):
        without, ours = choose(taken["0"]), choose(taken["1"])
        more = ours - without
        figures = [f"{value * 1e6:.0f} us" for value in (without, ours, more)]
        rows.append([f"processor time, {name}", *figures, f"{more / 0.010:.2%}"])
    table(rows)


if __name__ == "__main__":
    main()
