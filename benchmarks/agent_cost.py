"""What the agent costs a program at its start, in time and memory. The peer is bare Python: the
same program without RANKDBG=1."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from _measuring import begin, command, milliseconds, processor_time, table, take_turns

STARTS = 40
PEAK = "print(next(line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line))"


def measure(*both: dict[str, str]) -> None:
    starts = [command(sys.executable, "-c", "pass", **variables) for variables in both]
    elapsed = take_turns(STARTS, *starts)
    processor = take_turns(STARTS, *starts, clock=processor_time)
    peak = [
        int(subprocess.check_output([sys.executable, "-c", PEAK], env={**os.environ, **variables}))
        for variables in both
    ]
    rows = [["", "bare", "with agent", "more"]]
    for name, taken in (("python -c pass", elapsed), ("  its processor time", processor)):
        for which, choose in (("median", statistics.median), ("best", min)):
            bare, ours = map(choose, taken)
            rows.append([f"{name}, {which}", *map(milliseconds, (bare, ours, ours - bare))])
    sizes = [f"{size / 1024:.1f} MB" for size in (*peak, peak[1] - peak[0])]
    table([*rows, ["  its peak memory", *sizes]])


def main() -> None:
    begin(f"an agent's start, {STARTS} rounds", "15 ms and 3 MB more than bare Python")
    with tempfile.TemporaryDirectory(prefix="rankdbg-bench-") as directory:
        measure({"RANKDBG": "0"}, {"RANKDBG": "1", "RANKDBG_DIR": directory})


if __name__ == "__main__":
    main()
