"""ps, stacks and why on snapshots of 1,000, 10,000 and 100,000 ranks on nodes of 8.

All ranks but one wait in a collective; that one waits for a file. The figures are processor time of
the whole command. The peer is a program that parses the same files with `json`, and nothing more.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _measuring import BIN, begin, command, processor_time, seconds, table

from rankdbg.clusters import snapshot
from rankdbg.clusters.snapshot.merged_parts import Asked

BUDGETS = {"ps": 1.0, "stacks": 1.0, "why": 2.0}  # for 10,000 ranks
RANKS_A_NODE = 8
CULPRIT = 5
PARSE = "import json, pathlib, sys; [json.loads(p.read_bytes()) for p in pathlib.Path(sys.argv[1]).rglob('*.json')]"

_ALIKE = [["main", "/job/train.py", 59], ["<module>", "/job/train.py", 62]]
_WAITS = [["all_reduce", "/job/train.py", 42], ["train_step", "/job/train.py", 51], *_ALIKE]
_READS = [["read_shard", "/job/data.py", 11], ["train_step", "/job/train.py", 48], *_ALIKE]
# What `save` writes of each frame: no two ranks have the same.
_LOCALS = {
    "step": "4110", "batch": "<Tensor shape=(8, 1024) dtype=int64>", "lr": "0.0001",
    "model": "<Transformer object at 0x7f001>",
}  # fmt: skip
_Process = tuple[int, int]


def processes(node: int) -> dict[_Process, int]:
    """Their numbers."""
    first = node * RANKS_A_NODE
    return {(100 + place, 7000): first + place for place in range(RANKS_A_NODE)}


def roster(node: int, world: int) -> Any:
    entries = [
        {
            "pid": pid, "start": start, "ppid": 90, "job": "train", "kind": "rank", "number": number,
            "labels": {
                "rank": number, "world": world, "local_rank": number % RANKS_A_NODE,
                "node_rank": node, "source": "torchrun", "job": "train",
            },
            "state": "running", "detail": "", "age": 300.0, "agent": True, "python": "3.12.3",
            "where": (_READS if number == CULPRIT else _WAITS)[0], "above": [[90, "torchrun"]],
            "command": ["python", "-u", "train.py", "--lr", "1e-4"],
        }
        for (pid, start), number in processes(node).items()
    ]  # fmt: skip
    return {"host": f"node-{node}", "machine": f"machine-{node}", "processes": entries}


def stacks(node: int) -> Any:
    distinct = [
        [{"name": "MainThread", "main": True, "frames": frames}] for frames in (_WAITS, _READS)
    ]
    entries = [
        {"process": process, "samples": [int(number == CULPRIT)] * 3, "source": "agent", "why": ""}
        for process, number in processes(node).items()
    ]
    return {"distinct": distinct, "processes": entries, "silent": []}


def stacks_with_locals(node: int) -> Any:
    """Of each rank others."""
    distinct, entries = [], []
    for place, (process, number) in enumerate(processes(node).items()):
        frames = _READS if number == CULPRIT else _WAITS
        values = {**_LOCALS, "loss": f"{0.1 * number:.6f}", "shard": f"'/data/{number}.bin'"}
        distinct.append(
            [
                {
                    "name": "MainThread",
                    "main": True,
                    "frames": frames,
                    "locals": [values] * len(frames),
                }
            ]
        )
        entries.append({"process": process, "samples": [place] * 3, "source": "agent", "why": ""})
    return {"distinct": distinct, "processes": entries, "silent": []}


def vitals(at: float) -> Callable[[int], Any]:
    def of(number: int) -> Any:
        call = (
            {"call": "openat", "on": "/data/shard"} if number == CULPRIT else {"call": "recvfrom"}
        )
        return {"at": at, "state": "S", "age": 300.0, "cpu": 5.0, "woken": 11, **call}

    return of


def of_ranks(node: int, value: Callable[[int], Any]) -> Any:
    answers = [
        {"process": process, "value": value(number)} for process, number in processes(node).items()
    ]
    return {"answers": answers, "silent": []}


def asked(node: int, world: int, with_locals: bool) -> list[Asked]:
    read = stacks_with_locals if with_locals else stacks
    recorders = of_ranks(node, lambda _: {"torch": False, "documents": []})
    return [
        ({"ask": "roster"}, roster(node, world)),
        ({"ask": "vitals"}, of_ranks(node, vitals(300.0))),
        ({"ask": "collectives"}, recorders),
        ({"ask": "stacks", "threads": "all", "samples": 3, "locals": with_locals}, read(node)),
        ({"ask": "vitals"}, of_ranks(node, vitals(310.0))),
        ({"ask": "gpus"}, {"gpus": [], "driver": "", "why": "", "pids": ""}),
    ]


def measure(world: int, with_locals: bool, folder: Path) -> None:
    place = folder / f"of-{world}"
    saved = {
        f"node-{node}": asked(node, world, with_locals) for node in range(world // RANKS_A_NODE)
    }
    snapshot.save(place, "ssh:cluster", saved)
    parse = seconds(command(sys.executable, "-c", PARSE, place), clock=processor_time)
    name = f"{world} ranks" + ", with locals" * with_locals
    rows = [[name, "processor", "a rank", "to parsing", "budget"]]
    for verb, budget in BUDGETS.items():
        taken = seconds(command(BIN / "rankdbg", verb, "-t", f"snapshot:{place}"), processor_time)
        within = f"{budget:.0f} s" if world == 10_000 else ""
        rows.append(
            [
                verb,
                f"{taken:.2f} s",
                f"{taken / world * 1e6:.0f} us",
                f"{taken / parse:.1f}",
                within,
            ]
        )
    table(rows)
    subprocess.run(["rm", "-r", place], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="*", type=int, default=[1000, 10_000, 100_000])
    worlds = parser.parse_args().worlds
    begin("snapshots of many ranks")
    with tempfile.TemporaryDirectory(prefix="rankdbg-bench-") as folder:
        for world in worlds:
            for with_locals in (False, True):
                measure(world, with_locals, Path(folder))


if __name__ == "__main__":
    main()
