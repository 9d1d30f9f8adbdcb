"""The new messages of log files since the last read, also after rotation or truncation."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping

from rankdbg.files.foreign_files import open_file
from rankdbg.logs.clocks import read_clock
from rankdbg.logs.entries import Entry, LogQuery, Reading, parse_grep
from rankdbg.logs.expressions import SlowExpression
from rankdbg.logs.files import packing
from rankdbg.logs.messages import Message, messages
from rankdbg.logs.positions import Position, unread
from rankdbg.logs.prefixes import is_labelled
from rankdbg.logs.speakers import Speakers

# Of one file in one go; the rest comes in the next.
_PORTION = 1 << 20
# A message that was written this recently may be incomplete.
_SETTLED = 0.3


def read_new(wanted: LogQuery, positions: Mapping[int, Position]) -> Reading:
    """A file without a position is new and read completely. A message is returned when the next
    one begins, or when nothing was written for a moment."""
    reading = Reading()
    reached = {position.inode: position for position in positions.values()}
    for number, file in enumerate(wanted.files):
        try:
            for part in unread(file.place, positions.get(number), reached):
                reading.positions[number] = part.begin
                _read_on(wanted, number, part.path, reading)
                reached[part.begin.inode] = reading.positions[number]
        except SlowExpression:
            return Reading(slow=True)
        except OSError as error:
            reading.errors[number] = error.strerror or str(error)
            if number in positions:
                reading.positions[number] = positions[number]
    reading.entries.sort(key=lambda entry: entry.order)
    return reading


def _read_on(wanted: LogQuery, number: int, path: str, reading: Reading) -> None:
    position = reading.positions[number]
    with open_file(path) as file:
        status = os.fstat(file.fileno())
        if packing(file):  # what was compressed after its rotation was read before
            return
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
    end += position.end
    reading.positions[number] = Position(position.inode, end, end, stamp=stamp)
    reading.entries += _entries(wanted, number, found, status.st_mtime)


def _entries(
    wanted: LogQuery, number: int, found: list[Message], modified: float
) -> Iterator[Entry]:
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
        own = clock if message.is_dated else None
        yield Entry(order, own, number, *who[:3], message.text, message.head.repeated, who.copied)
