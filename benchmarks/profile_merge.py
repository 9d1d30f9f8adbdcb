"""Merging the traces of 64 ranks, 100 MB in all, into one time line.

The peer is what scripts for this do: load all with json, write all with json.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from _measuring import begin, table

from rankdbg.profiles import chrome
from rankdbg.types import ProcessKey, Rank

RANKS, MEGABYTES = 64, 100
NAMES = ["aten::mm", "aten::linear", "aten::add_", "c10d::allreduce_", "aten::copy_", "aten::sum"]


def write_trace(path: Path, rank: int, size: int) -> int:
    """As torch.profiler writes it, operators within operators, kernels on a GPU; its size."""
    chance = random.Random(rank)
    text = io.StringIO()
    text.write('{"schemaVersion": 1, "baseTimeNanoseconds": 1790857026000000000, "traceEvents": [')
    at, number = 0.0, 0
    while text.tell() < size:
        name, duration = chance.choice(NAMES), chance.uniform(5, 500)
        args = {"External id": number, "Record function id": 0, "Ev Idx": number}
        event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 4711, "tid": 4711}
        event |= {"ts": round(at, 3), "dur": round(duration, 3), "args": args}
        kernel = {**event, "cat": "kernel", "name": f"void {name}_kernel", "pid": 0, "tid": 7}
        for each in (
            event,
            {**event, "dur": round(duration / 2, 3), "name": "aten::empty"},
            kernel,
        ):
            text.write(("," if number else "") + "\n  " + json.dumps(each, indent=4))
            number += 1
        at += duration
    text.write("]}")
    with gzip.open(path, "wt", 1) as file:
        file.write(text.getvalue())
    return text.tell()


def ours(folder: Path) -> int:
    def part(path: Path) -> chrome.TracePart:
        number = int(path.stem.split(".")[0])
        rank = Rank(ProcessKey("node", number, 1), "bench", number)
        return chrome.TracePart(rank, f"rank {number}", lambda: gzip.open(path, "rt"), 1000)

    with gzip.open(folder / "merged.gz", "wt", 1) as out:
        return sum(m.events for m in chrome.merge(map(part, sorted(folder.glob("*.json.gz"))), out))


def peer(folder: Path) -> int:
    events = []
    for number, path in enumerate(sorted(folder.glob("*.json.gz"))):
        with gzip.open(path, "rt") as file:
            for event in json.load(file)["traceEvents"]:
                event["pid"] = f"rank {number} {event['pid']}"
                events.append(event)
    with gzip.open(folder / "merged.gz", "wt", 1) as out:
        json.dump({"traceEvents": events}, out)
    return len(events)


def measure(work: str, folder: Path) -> tuple[float, float, float, int]:
    """In a process of its own: seconds, of processor time too, the most memory in MB, events."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        begun = time.perf_counter()
        events = {"ours": ours, "peer": peer}[work](folder)
        taken = time.perf_counter() - begun
        used = resource.getrusage(resource.RUSAGE_SELF)
        result = taken, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, events
        os.write(writing, json.dumps(result).encode())
        os._exit(0)
    os.wait()
    measured: tuple[float, float, float, int] = tuple(json.loads(os.read(reading, 1000)))
    return measured


def main() -> None:
    begin(f"{RANKS} traces, {MEGABYTES} MB in all, as one", "under 20 s, under 1 GB")
    with tempfile.TemporaryDirectory(prefix="rankdbg-bench-") as directory:
        folder, size = Path(directory), 0
        for rank in range(RANKS):
            size += write_trace(folder / f"{rank:03}.json.gz", rank, MEGABYTES * 10**6 // RANKS)
        rows = [["", "seconds", "of processor time", "memory", "events"]]
        for name, work in (("rankdbg", "ours"), ("json.load of all, json.dump", "peer")):
            taken, used, memory, events = measure(work, folder)
            rows.append([name, f"{taken:.1f}", f"{used:.1f}", f"{memory:.0f} MB", str(events)])
    print(f"{size / 1e6:.0f} MB")
    table(rows)


if __name__ == "__main__":
    sys.exit(main())
