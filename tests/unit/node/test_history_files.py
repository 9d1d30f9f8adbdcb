"""The histories of ranks, from files that anybody may have written."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from rankdbg import wire
from rankdbg.agent.history.ring import Ring
from rankdbg.node import history_files
from rankdbg.process import history_layout as layout
from rankdbg.wire.decoding import decode
from rankdbg.wire.node_answers import Histories

WHO = {"pid": 4711, "start": 99, "host": "node-1", "labels": {"job": "train", "rank": 3}}


def content(folder: Path, identity: object) -> bytes:
    path = folder / "1-1.history"
    ring = Ring(str(path), layout.LEAST)
    ring.identify(json.dumps(identity).encode())
    ring.step(7)
    return path.read_bytes()


def read(*files: bytes) -> Histories:
    """As the session gets it."""
    named = [(f"{number}.history", io.BytesIO(each)) for number, each in enumerate(files)]
    said = history_files.read(named, "", [], None, 5)
    return decode(Histories, wire.decode(wire.encode(said)))


@pytest.mark.parametrize(
    "change",
    [
        {"pid": [1]}, {"pid": float("inf")}, {"pid": "4711"}, {"start": True}, {"start": 10**30},
        {"labels": []}, {"labels": None}, {"labels": "train"},
    ],
    ids=str,
)  # fmt: skip
def test_a_file_of_nobody_is_damaged(tmp_path: Path, change: dict[str, Any]) -> None:
    """It is named with the reason, and the file beside it is read."""
    found = read(content(tmp_path, {**WHO, **change}), content(tmp_path, WHO))
    assert [each.process for each in found.histories] == [(4711, 99)]
    assert found.damaged == ("0.history: its header is damaged: it does not say whose it is",)


@pytest.mark.parametrize("identity", [[], "x", 7, None, {"pid": 1}])
def test_a_file_that_says_something_else(tmp_path: Path, identity: object) -> None:
    """Is damaged too."""
    found = read(content(tmp_path, identity), content(tmp_path, WHO))
    assert (len(found.histories), len(found.damaged)) == (1, 1)


def test_labels_of_another_type_are_left_out(tmp_path: Path) -> None:
    """The others are used; a file that was not signed yet is nobody's, and whole."""
    labels = {**WHO["labels"], "rank": "x", "role": 7}  # type: ignore[dict-item]
    signed, unsigned = read(
        content(tmp_path, {**WHO, "labels": labels}), content(tmp_path, {})
    ).histories
    assert (signed.labels, len(signed.events)) == ({"job": "train"}, 1)
    assert (unsigned.process, unsigned.labels, len(unsigned.events)) == ((0, 0), {}, 1)
