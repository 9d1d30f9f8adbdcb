"""What agents say about their processes: one that is odd spoils no other."""

from __future__ import annotations

import os
from typing import Any

import pytest

from rankdbg import wire
from rankdbg.node.machine import processes
from rankdbg.node.roster import cards, entries
from rankdbg.node.roster.found_processes import Process
from rankdbg.wire.answers import ProcessEntry
from rankdbg.wire.decoding import decode

STOP = {"state": "stopped", "kind": "breakpoint", "why": "line 3"}
ANSWER: dict[str, Any] = {
    "labels": {"job": "train", "rank": 3, "multiprocessing": {"index": 1, "depth": 1}},
    "where": ["f", "x.py", 3],
    "modules": 7,
    "step": 12,
    "stops": [STOP],
}


def described(**said: Any) -> tuple[str, ProcessEntry]:
    """Why this process has no answer, and what its node says of it."""
    stat = processes.read_stat(os.getpid())
    assert stat is not None
    process = Process(stat.pid, stat.start, 1, True, {}, ["python"], socket="1.sock")
    why = cards._take(process, {**ANSWER, **said}, 0.0)
    return why, decode(ProcessEntry, wire.decode(wire.encode(entries.describe(process, {}))))


def test_a_stopped_rank() -> None:
    """Its labels, place, step and stop."""
    why, entry = described()
    assert (why, entry.state, entry.detail, entry.step) == ("", "stopped", "breakpoint: line 3", 12)
    assert entry.where == ("f", "x.py", 3)
    assert entry.labels.multiprocessing == {"index": 1, "depth": 1}


@pytest.mark.parametrize(
    "said",
    [
        {"where": ["f", "x.py", "3"]}, {"where": ["f"]}, {"where": 7}, {"where": {"f": 1}},
        {"modules": True}, {"modules": 10**30}, {"labels": []},
        {"stops": 7}, {"stops": [7]}, {"stops": [{**STOP, "state": 7}]}, {"stops": [{"why": "x"}]},
    ],
    ids=str,
)  # fmt: skip
def test_an_invalid_answer(said: dict[str, Any]) -> None:
    """Is no answer of this process, and what its node says of it is valid."""
    why, entry = described(**said)
    assert why == "invalid answer of its agent"
    assert (entry.where, entry.step) == (None, None)


@pytest.mark.parametrize(
    "said", [{"step": True}, {"step": 10**30}, {"labels": {"multiprocessing": {"index": [[]]}}}], ids=str
)  # fmt: skip
def test_what_is_left_out(said: dict[str, Any]) -> None:
    """A step or a label of another type; the rest is used."""
    why, entry = described(**said)
    assert (why, entry.where) == ("", ("f", "x.py", 3))
    assert entry.step in (12, None)
    assert entry.labels.multiprocessing == (
        {} if "labels" in said else ANSWER["labels"]["multiprocessing"]
    )
