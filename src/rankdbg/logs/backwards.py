"""The messages of a log file, the last first: what is wanted is nearly always at the end, and the
file may have 50 GB. Only a compressed one has to be read from its beginning."""

from __future__ import annotations

import io
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import IO

from rankdbg.logs.clocks import read_clock
from rankdbg.logs.files import open_log
from rankdbg.logs.messages import LONGEST_LINE, Message, begins, messages
from rankdbg.logs.prefixes import take_apart

PIECE, SMALLEST_PIECE = 1 << 18, 1 << 14
_AT_ONCE = 32 << 20  # of all files together
_PROBE = 1 << 16
# What stands at the beginning or end of a line, or behind it, may be a prefix's.
_ANCHORED = re.compile(r"[\^$]|\(\?<|\\[AZbB]")


def piece_size(files: int) -> int:
    """Many files are read at once, a piece of each."""
    return max(SMALLEST_PIECE, min(PIECE, _AT_ONCE // max(1, files)))


def is_packed(path: str) -> bool:
    with open_log(path) as file:
        return not isinstance(file, io.BufferedReader)


def pieces(path: str, end: int, size: int) -> Iterator[bytes]:
    """Whole messages of a plain file, up to `end`. It is opened anew for each piece: there may be
    thousands of files."""
    inode = 0
    while end > 0:
        begin = max(0, end - size)
        with open(path, "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if inode not in (0, status.st_ino) or status.st_size < end:
                return  # rotated or truncated meanwhile
            inode = status.st_ino
            data = os.pread(file.fileno(), end - begin, begin)
        cut = begins(data) if begin else 0
        yield data[cut:]
        end = begin + cut


def last_of_packed(
    path: str, wanted: Callable[[Message], bool], labelled: bool, limit: int
) -> list[Message]:
    """The last messages that are wanted, newest first, however long the file is."""
    kept: deque[Message] = deque(maxlen=limit)
    stamp, rest = "", b""
    with open_log(path) as file:
        while block := file.read(PIECE):
            whole, newline, rest = (rest + block).rpartition(b"\n")
            stamp = _keep(kept, whole + newline, wanted, labelled, stamp)
    _keep(kept, rest, wanted, labelled, stamp)
    return [*reversed(kept)]


def _keep(
    kept: deque[Message], data: bytes, wanted: Callable[[Message], bool], labelled: bool, stamp: str
) -> str:
    found = messages(lines_of(data), labelled, stamp)
    kept.extend(message for message in found if wanted(message))
    return found[-1].stamp if found else stamp


def last_newline(path: str, end: int) -> int:
    """Where the last whole line ends, before `end`."""
    with open(path, "rb", buffering=0) as file:
        data = os.pread(file.fileno(), PIECE, max(0, end - PIECE))
    return end - (len(data) - (data.rfind(b"\n") + 1))


def lines_of(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").split("\n")


def may_have(grep: str) -> Callable[[bytes], bool]:
    """Whether a piece can have matches at all: told without taking its lines apart, if the
    expression allows that."""
    if not grep or not grep.isascii() or _ANCHORED.search(grep):
        return lambda data: True
    try:
        expression = re.compile(grep.encode())
    except re.error:
        return lambda data: True
    # Colours may stand within a match, and a dot is a character, not a byte.
    return lambda data: not data.isascii() or b"\x1b" in data or expression.search(data) is not None


def place_after(path: str, moment: float, modified: float) -> int:
    """Where everything has been written after `moment`: a binary search by the clocks of lines.
    The end, where clocks do not tell."""
    with open(path, "rb", buffering=0) as file:
        end = high = os.fstat(file.fileno()).st_size
        low = 0
        while high - low > _PROBE:
            middle = (low + high) // 2
            time = _first_time(file, middle, modified)
            if time is None:
                return end
            low, high = (low, middle) if time > moment else (middle, high)
    # Clocks of several writers are not in order to the line.
    return min(end, high + _PROBE)


def _first_time(file: IO[bytes], place: int, modified: float) -> float | None:
    """The first clock after a place."""
    data = os.pread(file.fileno(), 2 * _PROBE, place)
    for raw in data.split(b"\n")[1:-1]:
        stamp = take_apart(raw[:LONGEST_LINE].decode("utf-8", "replace")).stamp
        if stamp and stamp[2] != ":":  # the time of day alone does not say on which day
            return read_clock(stamp, modified)
    return None
