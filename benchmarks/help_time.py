"""`rankdbg --help`, from the start of the process to its end.

The peers: bare Python, which is the least that it can be; py-spy, which is no Python at all;
and torchrun, which imports torch before it answers.
"""

from __future__ import annotations

import sys

from _measuring import BIN, begin, command, medians, milliseconds, processor_time, table

ROUNDS = 20


def main() -> None:
    begin(f"--help, median of {ROUNDS}", "rankdbg --help under 100 ms")
    programs = {
        "rankdbg --help": command(BIN / "rankdbg", "--help"),
        "rankdbg stacks --help": command(BIN / "rankdbg", "stacks", "--help"),
        "python -c pass": command(sys.executable, "-c", "pass"),
        "py-spy --help": command(BIN / "py-spy", "--help"),
    }
    elapsed = medians(ROUNDS, *programs.values())
    processor = medians(ROUNDS, *programs.values(), clock=processor_time)
    if (BIN / "torchrun").exists():
        slow = programs["torchrun --help"] = command(BIN / "torchrun", "--help")
        elapsed += medians(3, slow)
        processor += medians(3, slow, clock=processor_time)
    rows = [
        [name, milliseconds(time), f"{time / elapsed[0]:.2f} x", milliseconds(used)]
        for name, time, used in zip(programs, elapsed, processor, strict=True)
    ]
    table([["", "median", "to ours", "processor time"], *rows])


if __name__ == "__main__":
    main()
