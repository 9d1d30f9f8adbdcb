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
import os
import random
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from hypothesis import HealthCheck, Phase, given, seed, settings

from fuzzing import Target

FOUND = HERE.parents[1] / "build/fuzz"
BATCH = 1000  # inputs for one seed
GRACE = 120.0  # seconds by the clock, beyond the share of a target
SETTINGS = settings(
    max_examples=BATCH,
    database=None,
    deadline=None,
    derandomize=False,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=[*HealthCheck],
)


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
        self.failing: dict[str, bytes] = {}  # by the place of the fault; the smallest input
        self._known: set[str] = set()  # places that were made small already

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._end

    def run(self, generator: random.Random) -> None:
        while not self.is_over:
            test = seed(generator.randrange(2**64))(
                SETTINGS(given(self._target.inputs())(self._try))
            )
            try:
                test()
            except Exception:
                # The fault, or that hypothesis wonders why it is gone: the time was over.
                self._known = {*self.failing}
        self._current.unlink(missing_ok=True)

    def _try(self, data: bytes) -> None:
        if self.is_over:
            return
        self.count += 1
        self._current.write_bytes(data)  # of a process that is killed nothing else is left
        try:
            self._target.try_one(data)
        except Exception as error:
            place = place_of(error)
            if place not in self.failing or len(data) < len(self.failing[place]):
                self.failing[place] = data
            if place not in self._known:
                raise


def place_of(error: BaseException) -> str:
    """The innermost line of rankdbg, and what was raised there."""
    place: TracebackType | None = error.__traceback__
    found = ""
    while place is not None:
        path = Path(place.tb_frame.f_code.co_filename)
        if "rankdbg" in path.parts or HERE in path.parents or HERE.parent in path.parents:
            found = f"{path.name}:{place.tb_lineno}"
        place = place.tb_next
    return f"{type(error).__name__} in {found}"


def run_one(name: str, seconds: float, number: int) -> None:
    """Prints a line of JSON."""
    began, computed = time.monotonic(), time.process_time()
    trials = Trials(targets()[name], seconds)
    trials.run(random.Random(number))
    found = {place: _save(name, data) for place, data in trials.failing.items()}
    print(
        json.dumps(
            {
                "inputs": trials.count,
                "seconds": time.monotonic() - began,
                "computed": time.process_time() - computed,
                "found": found,
            }
        )
    )


def _save(name: str, data: bytes) -> str:
    path = FOUND / f"{name}-{hashlib.sha256(data).hexdigest()[:10]}.bin"
    path.write_bytes(data)
    return str(path.relative_to(HERE.parents[1]))


# --- all of them --------------------------------------------------------------------------


def run_all(names: list[str], seconds: float, number: int) -> int:
    FOUND.mkdir(parents=True, exist_ok=True)
    print(f"seed {number}: make fuzz SEED={number} tries the same inputs first", flush=True)
    lines, status = [], 0
    for name in names:
        said = _in_a_process(name, seconds / len(names), number)
        rate = said["inputs"] / max(0.001, said["seconds"])
        faults = len(said["found"])
        what = f"{faults} fault{'s' * (faults > 1)}" if faults else "nothing found"
        lines.append(
            f"{name:12} {said['inputs']:8} inputs {said['seconds']:6.1f} s {rate:7.0f}/s  {what}"
        )
        print(lines[-1], flush=True)
        for place, path in said["found"].items():
            status = 1
            lines.append(f"  {place}: make fuzz REPLAY={path}")
            print(lines[-1], flush=True)
    print("", *lines, sep="\n")
    return status


def _in_a_process(name: str, seconds: float, number: int) -> dict[str, object] | dict:  # type: ignore[type-arg]
    words = [sys.executable, __file__, "--one", name, "--seconds", f"{seconds}"]
    began = time.monotonic()
    try:
        ended = subprocess.run(
            [*words, "--seed", f"{number}"],
            stdout=subprocess.PIPE,
            text=True,
            timeout=seconds + GRACE,
        )
        last = ended.stdout.strip().rpartition("\n")[2]
        if not ended.returncode and last.startswith("{"):
            return json.loads(last)
        why = f"the process ended with status {ended.returncode}"
    except subprocess.TimeoutExpired:
        why = f"no answer {GRACE:g} s after the end"
    current = FOUND / f"{name}.current"
    saved = _save(name, current.read_bytes()) if current.exists() else "(before the first input)"
    return {"inputs": 0, "seconds": time.monotonic() - began, "found": {why: saved}}


def replay(path: Path) -> int:
    name = path.name.rpartition("-")[0] or path.stem
    data = path.read_bytes()
    print(f"{name}: {len(data)} bytes: {data[:300]!r}")
    try:
        targets()[name].try_one(data)
    except Exception:
        traceback.print_exc()
        return 1
    print("no fault")
    return 0


def main() -> int:
    every = targets()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", metavar="TARGET", nargs="*", choices=[*every, []])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--replay", type=Path, metavar="FILE")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        return replay(options.replay)
    if options.one:
        run_one(options.one, options.seconds, options.seed)
        return 0
    return run_all(options.names or [*every], options.seconds, options.seed)


if __name__ == "__main__":
    os.environ.setdefault("RANKDBG_TRACEBACK", "1")
    sys.exit(main())
