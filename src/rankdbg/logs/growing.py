"""What patterns find in a log that grows: each time only in what is new."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankdbg.logs.files import open_log
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.logs.positions import Position, Unread, unread
from rankdbg.logs.scan import AHEAD, LONGEST_LINE, STAMP_BEFORE, Scanner

# Of a file that is watched for days, so many lines of each pattern are kept: the first and the
# last ones. And so many files that it was before it was rotated.
KEPT = 1000
KEPT_FILES = 3


@dataclass(frozen=True)
class Addition:
    """New content of a file, and where to continue."""

    scan: FileScan
    position: Position | None
    anew: bool = False  # it is another file, or was truncated

    def as_json(self) -> dict[str, Any]:
        return {"scan": self.scan.as_json(), "position": self.position, "anew": self.anew}

    @staticmethod
    def from_json(value: Any) -> Addition:
        position = Position(*value["position"]) if value["position"] else None
        return Addition(FileScan.from_json(value["scan"]), position, bool(value["anew"]))


def scan_new(
    scanner: Scanner, path: str, last: Position | None, deadline: float = float("inf")
) -> list[Addition]:
    """New content since `last`; for a rotated file, the rest of the old one first."""
    try:
        parts = unread(path, last)
    except OSError as error:
        return [Addition(FileScan(path, error=error.strerror or str(error)), last)]
    return [_scan_part(scanner, path, part, deadline) for part in parts]


def _scan_part(scanner: Scanner, path: str, part: Unread, deadline: float) -> Addition:
    last = part.begin
    try:
        status = os.stat(part.path)
    except OSError as error:  # it was removed just now
        return Addition(FileScan(path, error=error.strerror or str(error)), last, part.anew)
    if last.end and status.st_size == last.size:
        scan = FileScan(path, size=last.size, modified=status.st_mtime, idle=_idle(status))
        return Addition(scan, last, part.anew)
    begin = _line_start(part.path, last.settled - STAMP_BEFORE)
    scan = scanner.scan(part.path, begin, deadline, (last.end, last.lines))
    # More than it has is read of a compressed file; less, of one that has grown meanwhile.
    size = min(status.st_size, scan.size)
    settled = max(last.settled, _settled(scan))
    position = Position(last.inode, scan.size, size, settled, scan.lines)
    return Addition(replace(scan, path=path, idle=_idle(status)), position, part.anew)


def _idle(status: os.stat_result) -> float:
    return max(0.0, time.time() - status.st_mtime)


def _settled(scan: FileScan) -> int:
    """The last line and a traceback at the end may be incomplete."""
    late = [hit.offset for hit in scan.hits if hit.offset > scan.size - AHEAD and hit.after]
    return max(0, min([scan.size - LONGEST_LINE, *late]))


def _line_start(path: str, offset: int) -> int:
    """The beginning of the first line after this place."""
    if offset <= 0:
        return 0
    try:
        with open_log(path) as file:
            file.seek(offset)
            part = file.read(LONGEST_LINE)
    except (OSError, EOFError):
        return 0
    return offset + part.find(b"\n") + 1


class FileHits:
    """The hits in a file so far, including its rotated predecessors."""

    def __init__(self) -> None:
        self.position: Position | None = None
        self._past: list[FileScan] = []
        self._hits: dict[tuple[int, str], Hit] = {}
        self._scan: FileScan | None = None

    def add(self, additions: Sequence[Addition]) -> None:
        for addition in additions:
            if addition.anew and self._scan is not None:
                self._past = [*self._past, *self.scans()[-1:]][-KEPT_FILES:]
                self._scan, self._hits = None, {}
            self.position = addition.position
            self._add(addition.scan)

    def _add(self, scan: FileScan) -> None:
        # A line that was read again counts as it is now: a traceback may have gone on.
        self._hits |= {(hit.offset, hit.pattern): hit for hit in scan.hits}
        self._hits = _kept(self._hits)
        before = self._scan
        if before is not None:
            scan = replace(
                scan,
                size=max(before.size, scan.size),
                modified=max(before.modified, scan.modified),
                beginning=before.beginning or scan.beginning,
                ending=scan.ending or before.ending,
                first_stamp=before.first_stamp or scan.first_stamp,
                last_stamp=scan.last_stamp or before.last_stamp,
                last_stamp_at=scan.last_stamp_at or before.last_stamp_at,
                full=before.full | scan.full,
                slow=before.slow | scan.slow,
            )
        self._scan = scan

    def scans(self) -> list[FileScan]:
        if self._scan is None:
            return self._past
        hits = tuple(self._hits[key] for key in sorted(self._hits))
        return [*self._past, replace(self._scan, hits=hits)]


def _kept(hits: dict[tuple[int, str], Hit]) -> dict[tuple[int, str], Hit]:
    by_pattern: dict[str, list[tuple[int, str]]] = {}
    for key in sorted(hits):
        by_pattern.setdefault(key[1], []).append(key)
    for keys in by_pattern.values():
        for key in keys[KEPT:-KEPT]:
            del hits[key]
    return hits
