"""Scans the log files of this node: the node's half of the question `logs`, `scan`.

Little is read in this process; much by a few processes beside it, so that all cores help
(threads would take turns), and at the lowest priority: the cores are the job's. What is not done
at the deadline is said.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rankdbg import _version
from rankdbg.logs.expressions import can_be_interrupted
from rankdbg.logs.growing import Addition, scan_new
from rankdbg.logs.patterns import FileScan, Pattern
from rankdbg.logs.positions import Position
from rankdbg.logs.scan import OUT_OF_TIME, Scanner
from rankdbg.node import offers
from rankdbg.wire.node_questions import ScanLogs

MANY_FILES = 100
FEWEST_LOOKS = 12  # of one file
# Below this, starting a process costs more than it saves.
MUCH = 32 << 20
MOST_WORKERS = 8
# Below this, to send the automaton costs more than it saves.
LARGE = 4 << 20
# What an answer may hold: a message must not be larger than 64 MiB, and logs may be anything.
MOST_TEXT, MOST_TEXT_OF_FILE = 32 << 20, 4 << 20
_A_WHILE = 60.0
_SHARE_OF_TIME = 0.9  # of the time that there is; the rest is for the answer

_Job = tuple[str, Position | None]
Rules = Mapping[str, Any]  # patterns and clock, as they travel

# The last rules, compiled: following asks often.
# By name: all rules, for about how many files some are compiled, and these.
_compiled: dict[str, tuple[Rules, int, Rules, Scanner]] = {}
_compiling = threading.Lock()


def scan(question: ScanLogs, deadline: float) -> Any:
    """`rules` is a name for `patterns` and `clock`; these need to be there only once."""
    name = question.rules
    if name not in _compiled and question.patterns is None:
        return {"unknown": name}
    jobs = [(path, Position(*at) if at else None) for path, at in question.places]
    if sum(_new_bytes(*job) for job in jobs) > LARGE:
        offers.need("automaton")
    until = time.monotonic() + _SHARE_OF_TIME * (deadline - time.monotonic())
    return {
        "files": _within_limits(scan_files(name, vars(question), jobs, until)),
        "time": time.time(),
    }


def scan_files(
    name: str,
    rules: Rules,
    jobs: Sequence[_Job],
    until: float = float("inf"),
    share_of_cores: float = 0.5,
) -> Iterator[tuple[str, list[Any]]]:
    """Each path, and what was read of it, as it travels. `share_of_cores`: a node's are its job's."""
    with _compiling:
        whole, known, kept, scanner = _compiled.get(name, (rules, 0, rules, None))
        if scanner is None or known != _about(len(jobs)):
            kept = _rules_for(whole, _about(len(jobs)))
            scanner = compile_rules(kept)
            _compiled.clear()
            _compiled[name] = whole, _about(len(jobs)), kept, scanner
        rules = kept
    workers = _how_many(jobs, share_of_cores)
    # What a user has written is searched for where it can be interrupted.
    foreign = any(pattern.get("foreign") for pattern in rules["patterns"])
    if workers > 1 or (jobs and foreign and not can_be_interrupted()):
        return _scan_beside(rules, jobs, workers, until)
    return ((path, scan_one(scanner, path, last, until)) for path, last in jobs)


def _about(files: int) -> int:
    """So that rules are not compiled anew for each file that a job opens."""
    return 1 << (files - 1).bit_length() if files > MANY_FILES else MANY_FILES


def _rules_for(rules: Rules, files: int) -> Rules:
    """Steps and phases of a few ranks tell as much as those of all: of many files, fewer lines."""
    share = min(1.0, MANY_FILES / max(1, files))
    patterns = [
        {**pattern, "looks": max(FEWEST_LOOKS, int(pattern["looks"] * share))}
        if pattern.get("looks") and share < 1
        else pattern
        for pattern in rules["patterns"]
    ]
    return {"patterns": patterns, "clock": rules["clock"], "many": share < 1}


def compile_rules(rules: Rules) -> Scanner:
    patterns = [Pattern.from_json(pattern) for pattern in rules["patterns"]]
    return Scanner(patterns, str(rules["clock"]), bool(rules.get("many")))


def _how_many(jobs: Sequence[_Job], share_of_cores: float) -> int:
    """Processes that are worth it."""
    size = sum(_new_bytes(*job) for job in jobs)
    if size < MUCH:
        return 1
    cores = len(os.sched_getaffinity(0))
    return min(MOST_WORKERS, max(1, int(cores * share_of_cores)), len(jobs))


def _new_bytes(path: str, last: Position | None) -> int:
    try:
        return max(0, os.stat(path).st_size - (last.size if last else 0))
    except OSError:
        return 0


def scan_one(scanner: Scanner, path: str, last: Position | None, until: float) -> list[Any]:
    if time.monotonic() > until:
        return _not_done(path, last)
    return [addition.as_json() for addition in scan_new(scanner, path, last, until)]


def _not_done(path: str, last: Position | None) -> list[Any]:
    return [Addition(FileScan(path, error=OUT_OF_TIME), last).as_json()]


# --- beside this process ------------------------------------------------------------------

_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); import rankdbg; del sys.path[0];"
    "from rankdbg.node.logs.log_worker import main; main()"
)


def _scan_beside(
    rules: Rules, jobs: Sequence[_Job], workers: int, until: float
) -> Iterator[tuple[str, list[Any]]]:
    """Each worker is given a file when it has done the one before; the largest first."""
    waiting = sorted(jobs, key=lambda job: _new_bytes(*job))
    under_way: dict[subprocess.Popen[bytes], _Job] = {}
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(workers):
            worker = start_worker()
            stack.callback(end_worker, worker)
            assert worker.stdout is not None
            selector.register(worker.stdout, selectors.EVENT_READ, worker)
            tell(worker, rules)
            under_way[worker] = waiting.pop()
            tell(worker, _as_message(under_way[worker], until))
        while under_way and time.monotonic() < until:
            for key, _ in selector.select(min(_A_WHILE, max(0.0, until - time.monotonic()))):
                worker = key.data
                line = worker.stdout.readline()
                path, last = under_way.pop(worker)
                yield path, json.loads(line) if line else _died(path, last)
                if not line:
                    selector.unregister(worker.stdout)
                elif waiting:
                    under_way[worker] = waiting.pop()
                    tell(worker, _as_message(under_way[worker], until))
    for path, last in [*under_way.values(), *waiting]:
        yield path, _not_done(path, last)


def _as_message(job: _Job, until: float) -> dict[str, Any]:
    path, last = job
    left = min(86400.0, max(0.0, until - time.monotonic()))
    return {"path": path, "last": last, "seconds": 0.95 * left}


def _died(path: str, last: Position | None) -> list[Any]:
    error = "the process that read it has ended"
    return [Addition(FileScan(path, error=error), last).as_json()]


def start_worker() -> subprocess.Popen[bytes]:
    package = os.path.dirname(os.path.dirname(os.path.abspath(_version.__file__)))
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _START, package],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "RANKDBG": "0"},
    )


def tell(worker: subprocess.Popen[bytes], message: Mapping[str, Any]) -> None:
    assert worker.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        worker.stdin.write(json.dumps(message).encode() + b"\n")
        worker.stdin.flush()


def end_worker(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.communicate()


# --- what travels -------------------------------------------------------------------------


def _within_limits(done: Iterable[tuple[str, list[Any]]]) -> list[list[Any]]:
    left = MOST_TEXT
    made = []
    for path, additions in done:
        for addition in additions:
            left -= _shorten(addition["scan"], min(left, MOST_TEXT_OF_FILE))
        made.append([path, additions])
    return made


def _shorten(scan: dict[str, Any], most: int) -> int:
    """The first hits of a file that is full of them, and its last. Returns how much there is."""
    sizes = [_size(hit) for hit in scan["hits"]]
    if sum(sizes) <= most:
        return sum(sizes)
    kept: set[int] = set()
    total = 0
    count = len(sizes)
    for number in (
        i for pair in zip(range(count), reversed(range(count)), strict=True) for i in pair
    ):
        if number in kept:
            break
        if total + sizes[number] <= most:
            kept.add(number)
            total += sizes[number]
    left_out = {hit[0] for number, hit in enumerate(scan["hits"]) if number not in kept}
    scan["hits"] = [scan["hits"][number] for number in sorted(kept)]
    scan["full"] = sorted({*scan["full"], *left_out})
    return total


def _size(hit: Sequence[Any]) -> int:
    _, _, _, text, head, stamp, before, after, *_ = hit
    return 64 + len(text) + len(head) + len(stamp) + sum(map(len, [*before, *after]))
