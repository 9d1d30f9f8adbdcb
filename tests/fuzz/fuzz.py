"""make fuzz: random inputs for every reader of what others have made, for a limited time.

  python tests/fuzz/fuzz.py [--seconds N] [--seed N] [TARGET...]
  python tests/fuzz/fuzz.py --replay build/fuzz/TARGET-….bin

Each target gets an equal share of the seconds, in a process of its own: one that crashes or is killed
is a fault too. The last lines say, for each target, how many inputs were tried in which time and what
was found. An input that a reader fails on is made smaller and saved; of inputs that fail at the same
place one is kept. Exit status: 0 nothing was found, 1 something was.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/support")]

from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402

from fuzzing import Target  # noqa: E402, after the path to it

FOUND = ROOT / "build/fuzz"
SECONDS = 240.0  # and a minute in which the processes start
BATCH = 1000  # inputs for one seed of hypothesis, which remembers them all
SMALLER_SECONDS = 5.0  # for each fault
GRACE = 120.0  # seconds by the clock, beyond the share of a target
SETTINGS = settings(
    max_examples=BATCH,
    database=None,
    deadline=None,
    derandomize=False,
    phases=[Phase.generate],
    suppress_health_check=[*HealthCheck],
)


@dataclass
class Outcome:
    """Of one target. `found`: what was raised and where -> the file with the input."""

    inputs: int = 0
    seconds: float = 0.0
    found: dict[str, str] = field(default_factory=dict)

    def line(self, name: str) -> str:
        rate = self.inputs / max(0.001, self.seconds)
        count = len(self.found)
        what = f"{count} fault{'s' if count > 1 else ''}" if count else "nothing found"
        return f"{name:12} {self.inputs:8} inputs {self.seconds:6.1f} s {rate:7.0f}/s  {what}"


@cache
def targets() -> dict[str, Target]:
    modules = [importlib.import_module(path.stem) for path in sorted(HERE.glob("test_*.py"))]
    return {target.name: target for module in modules for target in module.TARGETS}


# --- one target, in a process of its own --------------------------------------------------


class Trials:
    """Of one target, until the time is over."""

    def __init__(self, target: Target, seconds: float) -> None:
        self._target = target
        self._end = time.monotonic() + seconds
        self._current = FOUND / f"{target.name}.current"
        self.count = 0
        self.failing: dict[str, bytes] = {}  # by what was raised and where; the shortest input

    def run(self, number: int) -> None:
        generator = random.Random(number)
        while not self._is_over():
            test = SETTINGS(given(self._target.inputs())(self._try))
            seed(generator.randrange(2**64))(test)()
        self._current.unlink(missing_ok=True)

    def _is_over(self) -> bool:
        return time.monotonic() > self._end

    def _try(self, data: bytes) -> None:
        if self._is_over():
            return
        self.count += 1
        self._current.write_bytes(data)  # of a process that is killed nothing else is left
        place = fault_of(self._target, data)
        if place and len(data) < len(self.failing.get(place, data + b"-")):
            self.failing[place] = data


def fault_of(target: Target, data: bytes) -> str:
    """What was raised, and the innermost line of rankdbg or its tests; empty if all is well."""
    try:
        target.try_one(data)
    except Exception as error:
        return f"{type(error).__name__} in {_innermost(error.__traceback__)}"
    return ""


def _innermost(place: TracebackType | None) -> str:
    found = ""
    while place is not None:
        path = Path(place.tb_frame.f_code.co_filename)
        if ROOT in path.parents and ".venv" not in path.parts:
            found = f"{path.name}:{place.tb_lineno}"
        place = place.tb_next
    return found


def smaller(data: bytes, fails: Callable[[bytes], bool], seconds: float = SMALLER_SECONDS) -> bytes:
    """Without what the fault does not need: halves, quarters and so on, down to single bytes."""
    end, size = time.monotonic() + seconds, max(1, len(data) // 2)
    while size:
        start = 0
        while start < len(data) and time.monotonic() < end:
            without = data[:start] + data[start + size :]
            if fails(without):
                data = without
            else:
                start += size
        size //= 2
    return data


def run_one(target: Target, seconds: float, number: int) -> Outcome:
    began = time.monotonic()
    trials = Trials(target, seconds)
    trials.run(number)
    outcome = Outcome(trials.count, time.monotonic() - began)
    for place, data in trials.failing.items():
        small = smaller(data, lambda part, place=place: fault_of(target, part) == place)
        outcome.found[place] = _save(target.name, small)
    return outcome


def _save(name: str, data: bytes) -> str:
    path = FOUND / f"{name}-{hashlib.sha256(data).hexdigest()[:10]}.bin"
    path.write_bytes(data)
    return str(path.relative_to(ROOT))


# --- all of them --------------------------------------------------------------------------


def run_all(names: list[str], seconds: float, number: int) -> int:
    print(f"seed {number}; make fuzz SEED={number} begins with the same inputs", flush=True)
    lines = []
    for name in names:
        outcome = _in_a_process(name, seconds / len(names), number)
        lines.append(outcome.line(name))
        lines += [f"  {what}: make fuzz REPLAY={path}" for what, path in outcome.found.items()]
        print(lines[-1 - len(outcome.found)], flush=True)
    print("", *lines, sep="\n")
    return int(any("REPLAY=" in line for line in lines))


def _in_a_process(name: str, seconds: float, number: int) -> Outcome:
    words = [sys.executable, __file__, "--one", "--seconds", f"{seconds}", "--seed", f"{number}"]
    began = time.monotonic()
    try:
        ended = subprocess.run(
            [*words, name], stdout=subprocess.PIPE, text=True, timeout=seconds + GRACE
        )
        last = ended.stdout.strip().rpartition("\n")[2]
        if not ended.returncode:
            return Outcome(**json.loads(last))
        why = f"exit status {ended.returncode} of the process"
    except subprocess.TimeoutExpired:
        why = f"no end within {GRACE:g} s after its time"
    current = FOUND / f"{name}.current"
    saved = _save(name, current.read_bytes()) if current.exists() else "(before the first input)"
    return Outcome(0, time.monotonic() - began, {why: saved})


def replay(path: Path) -> int:
    """With the whole traceback."""
    data = path.read_bytes()
    print(f"{len(data)} bytes: {data[:300]!r}")
    try:
        targets()[path.name.rpartition("-")[0]].try_one(data)
    except Exception:
        traceback.print_exc()
        return 1
    print("nothing found")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", metavar="TARGET", nargs="*", help=", ".join(targets()))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--replay", type=Path, metavar="FILE", help="try one saved input again")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in targets()]:
        parser.error(f"unknown target {unknown[0]}; there are {', '.join(targets())}")
    if options.replay:
        return replay(options.replay)
    FOUND.mkdir(parents=True, exist_ok=True)
    if options.one:
        (name,) = options.names
        print(json.dumps(asdict(run_one(targets()[name], options.seconds, options.seed))))
        return 0
    return run_all(options.names or [*targets()], options.seconds, options.seed)


if __name__ == "__main__":
    sys.exit(main())
