"""Snapshots: each file of one that was recorded, changed in any place, and what the verbs show."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from random import Random

from fuzzing import Target, short_form, shown_by
from mutations import changed_json, damaged
from recorded_snapshot import FILES, HEAD

VERBS = (
    *(["ps", "--all"], ["ps", "--json"], ["select", "all"], ["stacks", "--json"], ["why"]),
    *(["stacks", "--threads", "all", "--locals"], ["why", "--json"], ["collectives"], ["list"]),
    *(
        ["ask", "all", "timeout"],
        ["history"],
        ["diverge"],
        ["nan"],
        ["check"],
        ["history", "--json"],
    ),
    *(["collectives", "--json"], ["ask", "all", "self", "--json"]),
)


# As ranks write it that save their uncaught exceptions: answers of all folders are merged.
OF_PROCESSES = json.dumps({**json.loads(FILES[HEAD]), "nodes": {}}).encode()


def snapshots(random: Random) -> bytes:
    """The words of a verb, and each changed file: a line with its name, and its content without any
    end of a line."""
    parts = [json.dumps(random.choice(VERBS)).encode()]
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        name = HEAD if random.random() < 0.05 else random.choice([*FILES])
        if random.random() < 0.1:
            content = damaged(random, FILES[name]).replace(b"\n", b" ")
        else:
            content = changed_json(random, [json.loads(FILES[name])]).replace(b"\n", b" ")
        parts += [name.encode(), content]
    if random.random() < 0.15:
        parts += [HEAD.encode(), OF_PROCESSES]
    return b"\n".join(parts)


def written(data: bytes, folder: str) -> tuple[list[str], Path]:
    """The words and the snapshot."""
    words, *parts = data.split(b"\n")
    place = Path(folder, "snapshot")
    for name, content in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    for named, content in zip(parts[::2], parts[1::2], strict=False):
        if named.decode("utf-8", "replace") in FILES:
            (place / named.decode()).write_bytes(content)
    if OF_PROCESSES in parts:
        (place / "nodes/0-node-1/roster-1.json").rename(place / "nodes/0-node-1/roster.json")
        shutil.copytree(place / "nodes/0-node-1", place / "nodes/1-node-1")
    return json.loads(words), place


def check(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        words, snapshot = written(data, folder)
        shown_by(*words, "-t", f"snapshot:{snapshot}")


TARGETS = [Target("snapshots", snapshots, check, 60)]
(test_snapshots,) = map(short_form, TARGETS)
