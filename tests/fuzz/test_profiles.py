"""What profilers in ranks have recorded: stacks with their weights, and traces of events; and the files
for viewers that are made of them."""

from __future__ import annotations

import gzip
import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fuzzing import Target, short_form
from mutations import HOSTILE, changed_json
from page_elements import Elements, refuse_constant
from rankdbg.investigations.profiles import profile_files
from rankdbg.investigations.profiles.profiling import RecordedFiles
from rankdbg.profiles.documents import Profile
from rankdbg.types import ProcessKey, Rank

FOLDED = {
    "unit": "samples", "whole": 60, "rate": 100.0,
    "frames": [["main", "/job/train.py", 30], ["step", "/job/train.py", 20], [HOSTILE, HOSTILE, 0]],
    "stacks": [["MainThread", True, [0, 1], 40.0], ["pump", False, [0, 2, 2], 20.0]],
}  # fmt: skip
EVENTS = [
    {"ph": "M", "name": "thread_name", "pid": 7, "tid": 7, "ts": 0, "args": {"name": "python"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 10.5, "dur": 30.0},
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 7, "tid": 7, "ts": 12.0, "dur": 3.0},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 13.0, "dur": 9.0},
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "pid": 7, "tid": 7, "ts": 11.0, "id": 3},
    {
        "ph": "X",
        "cat": "Trace",
        "name": "PyTorch Profiler (0)",
        "pid": "Spans",
        "ts": 1.0,
        "dur": 90.0,
    },
]
TRACE = {"schemaVersion": 1, "baseTimeNanoseconds": 10**18, "traceEvents": EVENTS}


def profiles(random: Random) -> bytes:
    """A line with what it is; then what a rank has sent."""
    kind, valid = random.choice([("folded", FOLDED), ("trace", TRACE)])
    return f"{kind}\n".encode() + changed_json(random, [valid], random.choice((1, 2, 4)))


def check(data: bytes) -> None:
    """Files that their viewers can read, with no element more; or the reason why a rank has none."""
    kind, _, content = data.partition(b"\n")
    with tempfile.TemporaryDirectory() as place:
        made, folder = read(kind.decode(), content, Path(place))
        if made:
            profile_files.write_pictures(folder, made, "train", str, None)
            assert Elements((folder / profile_files.FLAME).read_text()).tags == usual_tags()
            for name in (profile_files.SPEEDSCOPE, profile_files.TRACE):
                if (path := folder / name).exists():
                    text = path.read_bytes()
                    text = gzip.decompress(text) if name.endswith(".gz") else text
                    json.loads(text, parse_constant=refuse_constant)


def read(kind: str, content: bytes, folder: Path) -> tuple[list[Profile], Path]:
    """As they are read of two ranks, of which one is odd."""
    recorded = RecordedFiles(1.0)
    for number, each in enumerate((content, json.dumps(VALID[kind]).encode())):
        rank = Rank(ProcessKey("node-1", number, 1), "train", number)
        file = folder / f"{number}.json.gz"
        file.write_bytes(gzip.compress(each, 1))
        recorded.ranks.append(rank)
        recorded.files[rank.process] = {kind: file}
    return profile_files.read_all(recorded, folder, str), folder


VALID: dict[str, Any] = {"folded": FOLDED, "trace": TRACE}


@cache
def usual_tags() -> list[str]:
    with tempfile.TemporaryDirectory() as place:
        made, folder = read("folded", json.dumps(FOLDED).encode(), Path(place))
        profile_files.write_pictures(folder, made, "train", str, None)
        return Elements((folder / profile_files.FLAME).read_text()).tags


TARGETS = [Target("profiles", profiles, check, 100)]
(test_profiles,) = map(short_form, TARGETS)
