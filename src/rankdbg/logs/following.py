"""What has come to log files since they were read last, also where one was rotated or emptied."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping

from rankdbg.logs.clocks import read_clock
from rankdbg.logs.entries import Entry, Position, Reading, Wanted, parse_grep
from rankdbg.logs.growing import find_renamed
from rankdbg.logs.messages import Message, messages
from rankdbg.logs.prefixes import is_labelled
from rankdbg.logs.speakers import Speakers

# Of one file in one go; the rest comes in the next.
_PORTION = 1 << 20
# A message that was written within this time may go on.
_SETTLED = 0.3


def read_new(wanted: Wanted, positions: Mapping[int, Position]) -> Reading:
    """A file without a position is new: all of it is. Messages come as soon as the next one
    begins, or nothing more has come for a moment."""
    reading = Reading()
    reached = {position.inode: position for position in positions.values()}
    for number, file in enumerate(wanted.files):
        try:
            for path, begin in _parts(file.place, positions.get(number), reached):
                reading.positions[number] = begin
                _read_on(wanted, number, path, reading)
                reached[begin.inode] = reading.positions[number]
        except OSError as error:
            reading.errors[number] = error.strerror or str(error)
            if number in positions:
                reading.positions[number] = positions[number]
    reading.entries.sort(key=lambda entry: entry.order)
    return reading


def _parts(
    path: str, last: Position | None, reached: Mapping[int, Position]
) -> Iterator[tuple[str, Position]]:
    """Of a file that was rotated first the rest of the old one. A file that is new under its name
    may have been read under another."""
    status = os.stat(path)
    if last is not None and last.inode != status.st_ino and (old := find_renamed(path, last.inode)):
        yield old, last
    begin = last or Position(0, 0)
    if begin.inode != status.st_ino:
        begin = reached.get(status.st_ino, Position(status.st_ino, 0))
    yield path, begin if status.st_size >= begin.end else Position(status.st_ino, 0)


def _read_on(wanted: Wanted, number: int, path: str, reading: Reading) -> None:
    position = reading.positions[number]
    with open(path, "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        beginning = os.pread(file.fileno(), 4096, 0).decode("utf-8", "replace")
        data = os.pread(file.fileno(), _PORTION, position.end)
    settled = time.time() - status.st_mtime > _SETTLED
    whole = data[: data.rfind(b"\n") + 1]
    if not whole and len(data) == _PORTION:  # a line without an end
        whole = data
    lines = whole.split(b"\n")
    texts = [line.decode("utf-8", "replace") for line in lines]
    found = messages(texts, is_labelled(beginning), position.stamp)
    end = len(whole)
    if found and not settled and len(data) < _PORTION:  # the last may go on
        end = sum(len(line) + 1 for line in lines[: found.pop().number])
    stamp = found[-1].stamp if found else position.stamp
    reading.positions[number] = Position(position.inode, position.end + end, stamp)
    reading.entries += _entries(wanted, number, found, status.st_mtime)


def _entries(wanted: Wanted, number: int, found: list[Message], modified: float) -> Iterator[Entry]:
    speakers = Speakers(wanted.files[number], wanted)
    grep = parse_grep(wanted.grep) if wanted.grep else None
    order = 0.0
    for message in found:
        clock = read_clock(message.stamp, modified + 1.0) if message.stamp else None
        order = max(order, clock if clock is not None else modified)
        who = speakers.of(message.head)
        if not speakers.is_wanted(who):
            continue
        if grep and not (grep.search(message.text) or grep.search("\n".join(message.raw))):
            continue
        yield Entry(order, clock, number, *who[:3], message.text, message.head.repeated, who.copied)
