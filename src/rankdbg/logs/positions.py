"""How far a log file was read, and what of it is unread: also after rotation or truncation."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import NamedTuple


class Position(NamedTuple):
    """Where reading goes on. Another inode is another file."""

    inode: int
    end: int = 0  # bytes that were read: of a compressed file, of its contents
    size: int = 0  # the size of the file up to there: if it is smaller, it was truncated
    settled: int = 0  # a scan finds nothing else before this, whatever is written later
    lines: int = 0  # that end before `end`
    stamp: str = ""  # the last timestamp before `end`


class Unread(NamedTuple):
    path: str  # its name now
    begin: Position
    anew: bool = False  # another file than the one before, or truncated


def unread(
    path: str, last: Position | None, reached: Mapping[int, Position] | None = None
) -> list[Unread]:
    """For a rotated file, the rest of the old one first. `reached`: by inode, for a file that was
    read before under another name. Raises OSError if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        if last is not None and (moved := find_renamed(path, last.inode)):
            return [Unread(moved, last)]
        raise
    if last is not None and last.inode == status.st_ino:
        is_cut = status.st_size < last.size
        return [Unread(path, Position(last.inode) if is_cut else last, is_cut)]
    begin = (reached or {}).get(status.st_ino, Position(status.st_ino))
    parts = [Unread(path, begin, anew=last is not None)]
    if last is not None and (old := find_renamed(path, last.inode)):
        parts.insert(0, Unread(old, last))
    return parts


def find_renamed(path: str, inode: int) -> str:
    """The new name of a rotated file: train.log.1, train.log-20260301."""
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder or "."):
            if entry.name.startswith(name.partition(".")[0]) and entry.inode() == inode:
                return entry.path
    return ""
