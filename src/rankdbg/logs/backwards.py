"""The messages of a log file, the last first: the requested ones are nearly always at the end, and
the file may have 50 GB. Only a compressed file must be read from its beginning."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import IO

from rankdbg.files.foreign_files import data_ranges, open_file
from rankdbg.logs.clocks import read_clock
from rankdbg.logs.expressions import BadExpression, Expression, SlowExpression
from rankdbg.logs.files import open_log
from rankdbg.logs.messages import LONGEST_LINE, Message, begins, messages
from rankdbg.logs.prefixes import take_apart

PIECE, SMALLEST_PIECE = 1 << 18, 1 << 14
_AT_ONCE = 32 << 20  # of all files together
_PROBE = 1 << 16
# What stands at the beginning or end of a line, or behind it, may be a prefix's.
_ANCHORED = re.compile(r"[\^$]|\(\?<|\\[AZbB]")


def piece_size(files: int) -> int:
    """The size of a piece: many files are read in parallel, a piece of each."""
    return max(SMALLEST_PIECE, min(PIECE, _AT_ONCE // max(1, files)))


def pieces(path: str, end: int, size: int) -> Iterator[bytes]:
    """Whole messages of a plain file, up to `end`. It is reopened for each piece: there may be
    thousands of files."""
    inode = 0
    written: list[tuple[int, int]] | None = None
    while end > 0:
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            if inode not in (0, status.st_ino) or status.st_size < end:
                return  # rotated or truncated in the meantime
            inode = status.st_ino
            written = data_ranges(file) if written is None else written
            first, end = _written_before(written, end)
            begin = max(first, end - size)
            data = os.pread(file.fileno(), end - begin, begin)
            if begin > first and b"\n" not in data[:-1]:
                begin, data = _long_line(file, first, begin)
        cut = begins(data) if begin > first else 0
        yield data[cut:]
        end = begin + cut


def _written_before(ranges: list[tuple[int, int]], end: int) -> tuple[int, int]:
    """The last part of a file before this place that is no hole. (Nothing, where all is one.)"""
    for first, last in reversed(ranges):
        if first < end:
            return first, min(last, end)
    return 0, 0


def _long_line(file: IO[bytes], first: int, end: int) -> tuple[int, bytes]:
    """The start of a line that is longer than a piece, and the part of it that is shown."""
    while end > first:
        begin = max(first, end - PIECE)
        newline = os.pread(file.fileno(), end - begin, begin).rfind(b"\n")
        if newline >= 0:
            begin += newline  # with the end of the line before, by which this one begins
            break
        end = begin
    else:
        begin = first
    return begin, os.pread(file.fileno(), 4 * LONGEST_LINE + 1, begin)


def last_of_packed(
    path: str, wanted: Callable[[Message], bool], labelled: bool, limit: int, deadline: float
) -> list[Message]:
    """The last matching messages of a compressed file, newest first. Raises TimeoutError at the
    deadline: the newest are at its end, which was not reached."""
    kept: deque[Message] = deque(maxlen=limit)
    stamp, rest = "", b""
    with open_log(path) as file:
        while block := file.read(PIECE):
            if time.monotonic() > deadline:
                raise TimeoutError
            whole, newline, last = block.rpartition(b"\n")
            if not newline:  # of a long line its beginning is enough
                rest = (rest + block)[: 4 * LONGEST_LINE]
                continue
            stamp = _keep(kept, rest + whole + newline, wanted, labelled, stamp)
            rest = last
    _keep(kept, rest, wanted, labelled, stamp)
    return [*reversed(kept)]


def _keep(
    kept: deque[Message], data: bytes, wanted: Callable[[Message], bool], labelled: bool, stamp: str
) -> str:
    found = messages(lines_of(data), labelled, stamp)
    kept.extend(message for message in found if wanted(message))
    return found[-1].stamp if found else stamp


def last_newline(path: str, end: int) -> int:
    """The end of the last complete line before `end`."""
    with open_file(path) as file:
        data = os.pread(file.fileno(), PIECE, max(0, end - PIECE))
    return end - (len(data) - (data.rfind(b"\n") + 1))


def lines_of(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").split("\n")


def may_have(grep: str) -> Callable[[bytes], bool]:
    """Whether a piece can have matches, without splitting it into lines, if the expression allows
    that."""
    if not grep or not grep.isascii() or _ANCHORED.search(grep):
        return lambda data: True
    try:
        expression = Expression(grep.encode(), "--grep", in_all=float("inf"))
    except BadExpression:
        return lambda data: True

    def may_match(data: bytes) -> bool:
        # Colours may stand within a match, and a dot is a character, not a byte.
        if not data.isascii() or b"\x1b" in data:
            return True
        try:
            return expression.search(data) is not None
        except SlowExpression:  # in a whole piece: its lines are searched one by one
            return True

    return may_match


def place_after(path: str, moment: float, modified: float) -> int:
    """The place after which all lines are later than `moment`: a binary search by timestamps. The
    end if there are no timestamps."""
    with open_file(path) as file:
        end = high = os.fstat(file.fileno()).st_size
        low = 0
        while high - low > _PROBE:
            middle = (low + high) // 2
            time = _first_time(file, middle, modified)
            if time is None:
                return end
            low, high = (low, middle) if time > moment else (middle, high)
    # Timestamps of several writers are not strictly ordered.
    return min(end, high + _PROBE)


def _first_time(file: IO[bytes], place: int, modified: float) -> float | None:
    """The first clock after a place."""
    data = os.pread(file.fileno(), 2 * _PROBE, place)
    for raw in data.split(b"\n")[1:-1]:
        stamp = take_apart(raw[:LONGEST_LINE].decode("utf-8", "replace")).stamp
        if stamp and stamp[2] != ":":  # a time without a date is ambiguous
            return read_clock(stamp, modified)
    return None
