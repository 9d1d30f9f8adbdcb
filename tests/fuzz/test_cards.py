"""What agents say about their processes: cards in a directory, and answers. One that is odd must not
keep a node from the processes beside it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from fuzzing import Target, short_form
from mutations import changed_json
from rankdbg import wire
from rankdbg.node.machine import processes
from rankdbg.node.roster import cards, entries
from rankdbg.node.roster.card_files import read_card
from rankdbg.node.roster.found_processes import Process
from rankdbg.node.roster.labels import sound_labels
from rankdbg.wire.answers import ProcessEntry
from rankdbg.wire.decoding import decode

LABELS = {
    **{"job": "train", "rank": 3, "world": 8, "local_rank": 3, "role": "policy", "engine": "ray"},
    **{"mesh": {"tp": 2, "dp": 4}, "coordinates": {"tp": 1, "dp": 1}, "names": {"actor": "ref"}},
    **{"multiprocessing": {"parent": 1, "name": "w"}, "paused": "", "rendezvous": "127.0.0.1:1"},
}
CARD = {
    **{"pid": 4711, "start": 99, "ppid": 1, "labels": LABELS, "command": ["python", "x.py"]},
    **{"pid_namespace": "pid:[1]", "python": "3.11.7", "socket": "4711.sock"},
}
STOP = {
    **{"id": "1", "thread": "MainThread", "state": "stopped", "kind": "breakpoint", "why": "x"},
    **{"where": ["f", "x.py", 3], "age": 2.0},
}
ANSWER = {
    **{"labels": LABELS, "where": ["f", "x.py", 3], "modules": 7, "step": 12, "stops": [STOP]},
}


def check_card(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "4711.json").write_bytes(data)
        card = read_card(str(Path(folder, "4711.json")))
    if card is not None:
        sound_labels(card["labels"])


def check_answer(data: bytes) -> None:
    """What the session gets of this process is valid, whatever its agent has said."""
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return
    stat = processes.read_stat(os.getpid())
    assert stat is not None
    process = Process(stat.pid, stat.start, 1, True, {}, ["python"], socket="4711.sock")
    cards._take(process, answer, 0.0)
    described = wire.decode(wire.encode(entries.describe(process, {})))
    decode(ProcessEntry, described)


TARGETS = [
    Target("cards", lambda random: changed_json(random, [CARD]), check_card, 300),
    Target("agents", lambda random: changed_json(random, [ANSWER]), check_answer, 300),
]
test_cards, test_agents = map(short_form, TARGETS)
