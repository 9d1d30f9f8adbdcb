"""What a break that is not hit costs a loop of calls: without it, with it, after it is cleared.

The loop is a process of each Python found, under `rankdbg run`; it runs slice by slice, and
the break stands in a function of the same file that is never called. The peer is pdb's own
breakpoint in the same place: bdb's trace function, in the same Python.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _measuring import begin, table
from _worlds import PROGRAMS, Job

from rankdbg.session import Session
from rankdbg.types import Answer, Rank

SLICES = 5
PROGRAM = PROGRAMS / "breaks.py"
LINES = PROGRAM.read_text().splitlines()
LINE = next(number for number, line in enumerate(LINES, 1) if "# in never_called" in line)

PEER = f"""
import pdb, sys
sys.path.insert(0, {str(PROGRAMS)!r})
import breaks
debugger = pdb.Pdb(nosigint=True, readrc=False)
debugger.set_break({str(PROGRAM)!r}, {LINE})
debugger.reset()
debugger.botframe = sys._getframe()
debugger._set_stopinfo(debugger.botframe, None, -1)
sys.settrace(debugger.trace_dispatch)
breaks.measures()
"""


def pythons() -> list[Path]:
    found = Path("~/.pyenv/versions").expanduser().glob("3.1[0-9].*/bin/python")
    others = {path.parts[-3].rpartition(".")[0]: path for path in sorted(found)}
    here = f"3.{sys.version_info.minor}"
    return [path for _, path in sorted({**others, here: Path(sys.executable)}.items())]


class Loop:
    def __init__(self, *command: object, env: dict[str, str]) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([*map(str, command)], env=env, text=True, **pipes)

    def speed(self) -> float:
        """Calls a second, the median of some slices."""
        return statistics.median(self._slice() for _ in range(SLICES))

    def _slice(self) -> float:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def break_while_running(self, session: Session, ranks: list[Rank], clear: bool) -> None:
        """The main thread must execute Python to take it up (3.10 and 3.11): a slice runs."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        if clear:
            answers = session.clear_breaks(ranks)
        else:
            answers = session.set_break(ranks, str(PROGRAM), LINE)
        assert all(isinstance(answer, Answer) for answer in answers), answers
        self.process.stdout.readline()

    def end(self) -> None:
        self.process.communicate()


def measure(python: Path, scratch: Path) -> list[float]:
    job = Job(f"bench-{python.parts[-3]}", scratch)
    words = [sys.executable, "-m", "rankdbg", "run", "--job", job.name, "--", python]
    loop = Loop(*words, PROGRAM, "measures", env=job.environment)
    peer = Loop(python, "-c", PEER, env={**job.environment, "RANKDBG": "0"})
    with job.session() as session:
        speeds = [loop.speed()]  # by then it has started
        ranks = session.roster(where=False).jobs()[job.name]
        loop.break_while_running(session, ranks, clear=False)
        speeds.append(loop.speed())
        loop.break_while_running(session, ranks, clear=True)
        speeds += [loop.speed(), peer.speed()]
    loop.end()
    peer.end()
    return speeds


def main() -> None:
    begin("a loop of calls with a break that is not hit", "nothing measurable on 3.12 and later")
    table([["Python    ", "   calls/s", "with a break", "after clear", "pdb's own"]])
    for python in pythons():
        with tempfile.TemporaryDirectory(prefix="rankdbg-bench-") as scratch:
            bare, *others = measure(python, Path(scratch))
        version = subprocess.check_output([python, "-V"], text=True).split()[1]
        times = [f"{bare / speed:.2f} x" for speed in others]
        print(
            f"{version:10}  {bare:10,.0f}  {times[0]:>12}  {times[1]:>11}  {times[2]:>9}",
            flush=True,
        )


if __name__ == "__main__":
    main()
