"""The last messages of many log files, merged by time, in little memory.

All files are read backwards in parallel, and the newest message of all is taken, until there are
enough, or they are too old, or the time limit is reached: the messages so far are complete.
"""

from __future__ import annotations

import heapq
import lzma
import os
import time
import zlib
from collections.abc import Iterator

from rankdbg.logs import backwards
from rankdbg.logs.clocks import read_clock
from rankdbg.logs.entries import MOST_CHARACTERS, Entry, LogQuery, Reading, parse_grep
from rankdbg.logs.expressions import SlowExpression
from rankdbg.logs.files import is_packed, open_log
from rankdbg.logs.kinds import normalised
from rankdbg.logs.messages import Message, messages
from rankdbg.logs.places import LogFile
from rankdbg.logs.positions import Position
from rankdbg.logs.prefixes import is_labelled
from rankdbg.logs.speakers import Speakers

# Messages that wait for a clock before them, in a file that may have none.
_MOST_WAITING = 1000
_MOST_KINDS = 50_000
_BEGINNING = 4096
OUT_OF_TIME = "it is compressed and could not be unpacked completely in time"


class _TimeIsUp(Exception):
    pass


def read(wanted: LogQuery, deadline: float) -> Reading:
    """`deadline` by time.monotonic()."""
    reading = Reading()
    readers = [
        _Reader(wanted, number, file, reading, deadline) for number, file in enumerate(wanted.files)
    ]
    # Of messages at the same time, those of the first file come first: they are reversed below.
    newest = heapq.merge(
        *(reader.newest_first() for reader in reversed(readers)), key=lambda entry: -entry.order
    )
    try:
        (_gather_kinds if wanted.kinds else _take_last)(wanted, newest, reading)
    except _TimeIsUp:
        reading.late = True
    except SlowExpression:
        return Reading(slow=True)
    reading.entries.reverse()
    reading.counts.reverse()
    return reading


def _take_last(wanted: LogQuery, newest: Iterator[Entry], reading: Reading) -> None:
    characters = 0
    for entry in newest:
        if len(reading.entries) >= wanted.limit or characters > MOST_CHARACTERS:
            reading.older = True
            return
        reading.entries.append(entry)
        characters += len(entry.text)


def _gather_kinds(wanted: LogQuery, newest: Iterator[Entry], reading: Reading) -> None:
    """For each rank its first message of each kind, and how often it has come; what Ray's driver
    has copied apart from that, for each process."""
    first: dict[tuple[object, ...], tuple[Entry, int]] = {}
    try:
        for entry in newest:
            name = "" if entry.rank is not None else entry.name
            process = entry.pid if entry.copied else None
            key = normalised(entry.text), entry.rank, name, entry.copied, process
            if key not in first and len(first) >= _MOST_KINDS:
                reading.older = True
                return
            first[key] = entry, first.get(key, (entry, 0))[1] + 1
    finally:
        for entry, count in sorted(first.values(), key=lambda pair: -pair[0].order):
            reading.entries.append(entry)
            reading.counts.append(count)


class _Reader:
    """One file."""

    def __init__(
        self, wanted: LogQuery, number: int, file: LogFile, reading: Reading, deadline: float
    ) -> None:
        self._wanted = wanted
        self._number = number
        self._file = file
        self._reading = reading
        self._deadline = deadline
        self._speakers = Speakers(file, wanted)
        self._grep = parse_grep(wanted.grep) if wanted.grep else None
        self._later = 0.0  # when the message was written that follows the one that is looked at
        self._modified = 0.0
        self._waiting: list[Message] = []

    def newest_first(self) -> Iterator[Entry]:
        path = self._file.place
        try:
            status = os.stat(path)
            self._modified = status.st_mtime
            # A clock may be a little ahead of the file system's.
            self._later = status.st_mtime + 1.0
            with open_log(path) as file:
                labelled = is_labelled(file.read(_BEGINNING).decode("utf-8", "replace"))
            if is_packed(path):
                yield from self._of_packed(path, labelled)
            else:
                yield from self._of_plain(path, labelled)
            yield from self._released()
        except TimeoutError:
            self._reading.errors[self._number] = OUT_OF_TIME
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            self._reading.errors[self._number] = getattr(error, "strerror", None) or str(error)

    def _of_packed(self, path: str, labelled: bool) -> Iterator[Entry]:
        limit = self._wanted.limit if not self._wanted.kinds else 10 * self._wanted.limit
        last = backwards.last_of_packed(path, self._is_wanted, labelled, limit + 1, self._deadline)
        for message in last:
            yield from self._dated(message)

    def _of_plain(self, path: str, labelled: bool) -> Iterator[Entry]:
        wanted = self._wanted
        end = self._end(path)
        may_have = backwards.may_have(wanted.grep)
        for data in backwards.pieces(path, end, backwards.piece_size(len(wanted.files))):
            if time.monotonic() > self._deadline:
                raise _TimeIsUp
            if may_have(data):
                found = messages(backwards.lines_of(data), labelled)
            else:  # only the clock with which it begins matters
                found = messages(backwards.lines_of(data[: data.find(b"\n") + 1]), labelled)
            position = self._reading.positions[self._number]
            if found and not position.stamp:
                last = position._replace(stamp=found[-1].stamp)
                self._reading.positions[self._number] = last
            for message in reversed(found):
                yield from self._dated(message)
            if found and wanted.since is not None and self._later < wanted.since:
                return

    def _end(self, path: str) -> int:
        """The end of the part to read, which is also the position for following."""
        status = os.stat(path)
        end = status.st_size
        if self._wanted.follow:
            end = backwards.last_newline(path, end)
        self._reading.positions[self._number] = Position(status.st_ino, end, end)
        if self._wanted.until is None:
            return end
        return min(end, backwards.place_after(path, self._wanted.until, self._later))

    def _dated(self, message: Message) -> Iterator[Entry]:
        """With its time; a message without a timestamp waits for the one before it."""
        if not message.stamp:
            self._waiting.append(message)
            if len(self._waiting) > _MOST_WAITING:
                yield from self._released()
            return
        clock = read_clock(message.stamp, self._later)
        if clock is None:
            clock = self._later
        self._later = min(clock, self._later)
        yield from self._released(message)
        yield from self._entry(message, self._later, clock if message.is_dated else None)

    def _released(self, dating: Message | None = None) -> Iterator[Entry]:
        """Waiting messages, now that the timestamp before them is known, or known to be missing."""
        waiting, self._waiting = self._waiting, []
        order = self._later if dating else min(self._later, self._modified)
        if waiting and not dating:
            self._reading.clockless.add(self._number)
            self._later = order
        for message in waiting:
            is_dated = dating is not None and message.is_dated_by(dating.stamped_by)
            yield from self._entry(message, order, order if is_dated else None)

    def _entry(self, message: Message, order: float, clock: float | None) -> Iterator[Entry]:
        since, until = self._wanted.since, self._wanted.until
        when = order if clock is None else clock
        if (since is not None and when < since) or (until is not None and when > until):
            return
        if self._is_wanted(message):
            who = self._speakers.of(message.head)
            self._reading.speakers.add((who.rank, who.name))
            yield Entry(
                order,
                clock,
                self._number,
                *who[:3],
                message.text,
                message.head.repeated,
                who.copied,
            )

    def _is_wanted(self, message: Message) -> bool:
        if self._grep is not None and not self._matches(message):
            return False
        who = self._speakers.of(message.head)
        if self._speakers.is_wanted(who):
            return True
        self._reading.speakers.add((who.rank, who.name))
        return False

    def _matches(self, message: Message) -> bool:
        assert self._grep is not None
        return bool(self._grep.search(message.text) or self._grep.search("\n".join(message.raw)))
