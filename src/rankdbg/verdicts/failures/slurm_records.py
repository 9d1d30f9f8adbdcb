"""What Slurm prints when it is asked: rows of sacct, and the records of nodes of `scontrol show node`.

    4711.0   srun  OUT_OF_ME+  0:125  2026-05-04T09:30:00  2026-05-04T09:40:01   node-2

A row is of an end: its time is the last one of the row, not the start of the job. A record has the host
in its first line, and in its last one since when and why the node is down.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Sequence
from dataclasses import replace

from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.verdicts.rules import clues

NODE_DOWN, NODE_FAILED = "slurm_node_down", "slurm_node_failed"  # modes
_ROW = re.compile(r"^\s*\d+(?:_\d+)?(?:\.\w+)?\s*[ |]")  # 4711, 4711_3, 4711.batch
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_STATE = re.compile(r"\bState=DOWN")
_LONGEST_RECORD = 4 << 10
# Slurm has lost it: not a node that a person, or a job that could not be killed, has taken away.
_LOST = re.compile(r"State=DOWN\*|Reason=(Not responding|Node unexpectedly rebooted)")


def with_times_of_records(scans: Sequence[FileScan]) -> list[FileScan]:
    """The same, rows and records with the time of what they tell."""
    return [_with_times(scan) for scan in scans]


def _with_times(scan: FileScan) -> FileScan:
    if not any("NodeName=" in hit.text or is_row(hit.text) for hit in scan.hits):
        return scan
    records = NodeRecords([scan])
    return replace(scan, hits=tuple(_timed(hit, scan, records) for hit in scan.hits))


def _timed(hit: Hit, scan: FileScan, records: NodeRecords) -> Hit:
    if is_row(hit.text):
        return hit._replace(stamp=max(_TIME.findall(hit.text)))
    # Above the reason stands when the machine was started.
    if _STATE.search(hit.text) and records.host(scan.path, hit.offset):
        reason = _TIME.search(hit.text.partition("Reason=")[2])
        return hit._replace(stamp=reason[0] if reason else "")
    return hit


def is_row(text: str) -> bool:
    """Whether it is a row of sacct with times."""
    return bool(_ROW.match(text) and _TIME.search(text))


def tells_of_lost_node(text: str) -> bool:
    return bool(_LOST.search(text))


class NodeRecords:
    """The records of nodes in some files, each from the line with its host on."""

    def __init__(self, scans: Sequence[FileScan]) -> None:
        self._begins: dict[str, list[tuple[int, str]]] = {}
        for scan in scans:
            for hit in scan.hits:
                if hit.pattern == clues.IDENTITY and (found := clues.find(clues.NODE, hit.text)):
                    self._begins.setdefault(scan.path, []).append((hit.offset, found["host"]))

    def host(self, path: str, offset: int) -> str:
        """Of the record that a line is in; `` if it is in none."""
        begins = self._begins.get(path, [])
        above = bisect_right(begins, offset, key=lambda begin: begin[0])
        if not above or offset > begins[above - 1][0] + _LONGEST_RECORD:
            return ""
        return begins[above - 1][1]


def host_of_row(text: str, hosts: Container[str]) -> str:
    """The one host that a row of sacct names as its own; `` if it names several, or none."""
    if not is_row(text):
        return ""
    named = {word for word in re.split(r"[\s|]+", text) if word in hosts}
    return named.pop() if len(named) == 1 else ""
