"""Reads of a log only what is new since it was read last, also where it was rotated meanwhile."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankdbg.logs.files import open_log
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.logs.scan import AHEAD, LONGEST_LINE, STAMP_BEFORE, Scanner

# Of a file that is watched for days, so many lines of each pattern are kept: the first and the
# last ones. And so many files that it was before it was rotated.
KEPT = 1000
KEPT_FILES = 3


@dataclass(frozen=True)
class Position:
    """Up to where a file was read. Another inode under its name is another file."""

    inode: int
    size: int = 0  # that it had
    settled: int = 0  # what comes later changes nothing before this
    read: int = 0  # bytes: of a compressed file, of its contents
    lines: int = 0  # that ended in them

    def as_json(self) -> list[int]:
        return [self.inode, self.size, self.settled, self.read, self.lines]

    @staticmethod
    def from_json(value: Any) -> Position | None:
        return Position(*map(int, value)) if value else None


@dataclass(frozen=True)
class Addition:
    """What was read of a file, and where to go on."""

    scan: FileScan
    position: Position | None
    anew: bool = False  # it is another file than before, or was emptied

    def as_json(self) -> dict[str, Any]:
        position = self.position.as_json() if self.position else None
        return {"scan": self.scan.as_json(), "position": position, "anew": self.anew}

    @staticmethod
    def from_json(value: Any) -> Addition:
        position = Position.from_json(value["position"])
        return Addition(FileScan.from_json(value["scan"]), position, bool(value["anew"]))


def scan_new(
    scanner: Scanner, path: str, last: Position | None, deadline: float = float("inf")
) -> list[Addition]:
    """What has come since `last`: of a file that was rotated first the rest of the old one."""
    try:
        status = os.stat(path)
    except OSError as error:
        if last is not None and (moved := find_renamed(path, last.inode)):
            return [_called(path, _scan_from(scanner, moved, last, deadline))]
        return [Addition(FileScan(path, error=error.strerror or str(error)), last)]
    here = Position(status.st_ino)
    if last is None:
        return [_scan_from(scanner, path, here, deadline)]
    if last.inode != status.st_ino:
        made = []
        if old := find_renamed(path, last.inode):
            made.append(_called(path, _scan_from(scanner, old, last, deadline)))
        return [*made, replace(_scan_from(scanner, path, here, deadline), anew=True)]
    if status.st_size < last.size:
        return [replace(_scan_from(scanner, path, here, deadline), anew=True)]
    if status.st_size == last.size:
        scan = FileScan(path, size=last.size, modified=status.st_mtime, idle=_idle(status))
        return [Addition(scan, last)]
    return [_scan_from(scanner, path, last, deadline)]


def _called(path: str, addition: Addition) -> Addition:
    return replace(addition, scan=replace(addition.scan, path=path))


def _scan_from(scanner: Scanner, path: str, last: Position, deadline: float) -> Addition:
    begin = _line_start(path, last.settled - STAMP_BEFORE)
    scan = scanner.scan(path, begin, deadline, (last.read, last.lines))
    try:
        status = os.stat(path)
    except OSError:
        return Addition(scan, last)
    # More than it has is read of a compressed file; less, of one that has grown meanwhile.
    size = min(status.st_size, scan.size)
    settled = max(last.settled, _settled(scan))
    position = Position(last.inode, size, settled, scan.size, scan.lines)
    return Addition(replace(scan, idle=_idle(status)), position)


def _idle(status: os.stat_result) -> float:
    return max(0.0, time.time() - status.st_mtime)


def _settled(scan: FileScan) -> int:
    """The last line may go on, and so may a traceback that is the last that was written."""
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


def find_renamed(path: str, inode: int) -> str:
    """What the file is called now that had this name: train.log.1, train.log-20260301."""
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder or "."):
            if entry.name.startswith(name.partition(".")[0]) and entry.inode() == inode:
                return entry.path
    return ""


class Memory:
    """What was found in a file so far: in all that it was, if it was rotated."""

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
                full=before.full | scan.full,
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
