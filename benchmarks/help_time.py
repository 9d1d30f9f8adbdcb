"""`rankdbg --help`, from the start of the process to its end.

The peers: bare Python, which is the least that it can be; py-spy, which is no Python at all;
and torchrun, which imports torch before it answers.
"""

from __future__ import annotations

import sys

from _measuring import BIN, begin, command, medians, milliseconds, table

ROUNDS = 20


def main() -> None:
    begin(f"--help, median of {ROUNDS}", "rankdbg --help under 100 ms")
    programs = {
        "rankdbg --help": command(BIN / "rankdbg", "--help"),
        "rankdbg stacks --help": command(BIN / "rankdbg", "stacks", "--help"),
        "python -c pass": command(sys.executable, "-c", "pass"),
        "py-spy --help": command(BIN / "py-spy", "--help"),
    }
    times = dict(zip(programs, medians(ROUNDS, *programs.values()), strict=True))
    if (BIN / "torchrun").exists():
        (times["torchrun --help"],) = medians(3, command(BIN / "torchrun", "--help"))
    ours = times["rankdbg --help"]
    rows = [[name, milliseconds(time), f"{time / ours:.2f} x"] for name, time in times.items()]
    table([["", "median", "to ours"], *rows])


if __name__ == "__main__":
    main()
