"""Files in which ranks keep what they did: of ranks that were killed while they wrote, or of anybody."""

from __future__ import annotations

import io
import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from fuzzing import Target, documented, short_form, shown_by
from mutations import changed_json, damaged
from rankdbg import wire
from rankdbg.agent.history.ring import Ring
from rankdbg.node import history_files
from rankdbg.process import history_layout as layout
from rankdbg.process.history_layout import BadHistory, History, identity_in
from rankdbg.wire.decoding import decode
from rankdbg.wire.node_answers import Histories

SIZE = layout.LEAST
IDENTITY = {
    **{"pid": 4711, "start": 99, "host": "node-1"},
    "labels": {"job": "train", "rank": 3, "world": 4, "role": "", "mesh": {"tp": 2}},
}


@cache
def written() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        ring = Ring(str(Path(folder, "4711-99.history")), SIZE)
        ring.identify(json.dumps(IDENTITY).encode())
        for step in range(4):
            ring.step(step)
            ring.note(layout.COLLECTIVE, ring.text("a", "all_reduce f[8]\t/x.py:1 f\t0\tpg\t2"), 3)
            ring.note(layout.MARK, ring.text("m", "loss\t/x.py:2 f"), 0, (layout.FLOAT, 3))
        return Path(ring.path).read_bytes()


def histories(random: Random) -> bytes:
    """Who it was, and the ring, in which any number may be another one."""
    content = bytearray(written())
    said = changed_json(random, [IDENTITY], random.choice((0, 1, 2)))
    content[layout.IDENTITY_AT : layout.HEADER_BYTES] = said.ljust(ROOM, b"\0")[:ROOM]
    for _ in range(random.randint(0, 6)):
        at = random.randrange(random.choice((layout.IDENTITY_AT, SIZE)))
        number = random.choice((0, 1, 255, 2**16, 2**31, 2**32 - 1, 2**63, 2**64 - 1))
        content[at : at + 8] = number.to_bytes(8, "little")
    return damaged(random, bytes(content)) if random.random() < 0.2 else bytes(content)


ROOM = layout.HEADER_BYTES - layout.IDENTITY_AT


def check_layout(data: bytes) -> None:
    """No more events than there is room for."""
    with documented(BadHistory):
        identity_in(data[: layout.HEADER_BYTES])
        history = History(data)
        assert len([*history.events()]) <= len(data) // layout.EVENT.size
        assert len([*history.digests()]) <= len(data) // layout.DIGEST.size


def check_node(data: bytes) -> None:
    """What a node says of such a file is valid, and it says it of the file beside it too."""
    for steps, last in ((None, 0), (None, 5), ((1, 2), 0)):
        files = [("4711-99.history", io.BytesIO(data)), ("4712-99.history", io.BytesIO(written()))]
        said = wire.decode(wire.encode(history_files.read(files, "", [], steps, last)))
        assert len(decode(Histories, said).histories) >= 1


def check_verb(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "4712-99.history").write_bytes(written())
        Path(folder, "4711-99.history").write_bytes(data)
        shown_by("history", folder, *(["--json"] if len(data) % 2 else []))


TARGETS = [
    Target("ring", histories, check_layout, 100),
    Target("history-files", histories, check_node, 60),
    Target("histories", histories, check_verb, 6),
]
test_ring, test_history_files, test_histories = map(short_form, TARGETS)
