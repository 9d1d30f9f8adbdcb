"""Reads a log file of any size for patterns that come with the question.

Literals first, all at once, then regular expressions on the lines that have one. Nothing
here knows a rule; a node can run it. Memory does not grow with the file: it is read in
blocks, a pattern keeps its first `limit` lines, and is then looked for in the end only.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import IO

from rankdbg.logs.files import BLOCK, blocks, open_log
from rankdbg.logs.literals import Literals
from rankdbg.logs.patterns import FileScan, Hit, Pattern, PatternSet

AHEAD = 64 << 10  # what is this close to the end of a block waits: its lines may go on
ENDING = 64 << 10  # the end of a file, in which every pattern is looked for
LONGEST_LINE = 16 << 10  # of a longer line, this much around the hit is looked at
HEAD = 240  # of a line's beginning, where its prefixes are
STAMP_BEFORE = 4 << 10  # how far back a clock is looked for

_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Scanner:
    """All patterns, compiled once for many files."""

    def __init__(self, patterns: Sequence[Pattern], clock: str = "") -> None:
        self.patterns = PatternSet(patterns)
        self.literals = Literals(self.patterns.literals())
        self.clock = re.compile(clock.encode()) if clock else None
        self._unnumbered = {pattern.name for pattern in patterns if not pattern.numbered}
        self._fewer: dict[frozenset[str], Literals] = {}

    def literals_without(self, full: set[str]) -> Literals:
        """For a file in which these patterns need no more lines. Kept for other files: one
        costs 15 ms to build, and files of a job are alike."""
        key = frozenset(full)
        if key not in self._fewer:
            self._fewer[key] = Literals(self.patterns.literals(full))
        return self._fewer[key]

    def scan(self, path: str) -> FileScan:
        """One file. What cannot be read is said in `error`, never raised."""
        reading = _Reading(self)
        modified, error = 0.0, ""
        try:
            with open_log(path) as file:
                modified = os.stat(path).st_mtime
                for block in blocks(file):
                    reading.add(block)
        except OSError as failure:
            error = failure.strerror or str(failure)
        except Exception as failure:  # gzip, lzma, zlib and zstd each have errors of their own
            error = f"{type(failure).__name__}: {failure}"
        reading.finish()
        hits = [reading.hits[key] for key in sorted(reading.hits)]
        return FileScan(
            path=path,
            hits=tuple(_numbered(path, hits, self._unnumbered)),
            size=reading.size,
            modified=modified,
            beginning=_text(reading.beginning),
            ending=reading.ending,
            full=frozenset(reading.full),
            error=error,
        )


class _Reading:
    """One file on its way through the scanner."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._literals = scanner.literals
        self._buffer = b""
        self._stride = 64 << 10
        self._done = 0  # how much of the buffer has been looked at
        self._counts: dict[str, int] = {}  # lines that match, by pattern
        self._looks: dict[str, int] = {}  # lines with its literal
        self.hits: dict[tuple[int, str], Hit] = {}
        self.full: set[str] = set()
        self._stamped = (0, "")  # up to where clocks were looked for, and the last one
        self.size = 0
        self.beginning = b""
        self.ending = ""

    def add(self, block: bytes) -> None:
        self.size += len(block)
        if len(self.beginning) < 4096:
            self.beginning = (self.beginning + block)[:4096]
        self._buffer += block
        until = len(self._buffer) - AHEAD
        if until <= self._done:
            return
        line_end = self._buffer.rfind(b"\n", max(self._done, until - LONGEST_LINE), until)
        until = line_end + 1 or until
        self._look_on(until)
        passed = max(0, until - ENDING)
        self._buffer = self._buffer[passed:]
        self._done = until - passed

    def finish(self) -> None:
        end = len(self._buffer)
        self._look_on(end)
        if self.full:
            self._stamped = (0, "")
            self._look(max(0, end - ENDING), end, self._scanner.literals, ending=True)
        last = self._buffer[-LONGEST_LINE:].rstrip().rsplit(b"\n", 1)[-1].rsplit(b"\r", 1)[-1]
        self.ending = _text(last)[:HEAD]

    def _look_on(self, until: int) -> None:
        """In small steps as long as patterns fill up: steps of a training fill theirs at once."""
        while self._done < until:
            stop, full = min(self._done + self._stride, until), len(self.full)
            self._look(self._done, stop, self._literals)
            self._done = stop
            if len(self.full) > full:
                self._literals = self._scanner.literals_without(self.full)
            else:
                self._stride = min(2 * self._stride, BLOCK)

    def _look(self, start: int, until: int, literals: Literals, ending: bool = False) -> None:
        """Gathers the literals of each line; a line is dealt with when the next one begins."""
        span, found = (0, 0), set[bytes]()
        for literal, place in [*literals.find(self._buffer, start, until), (b"", until)]:
            if literal and span[0] <= place < span[1]:
                found.add(literal)
                continue
            if found:
                self._keep(span, found, ending)
            if literal:
                span, found = self._span(place), {literal}

    def _span(self, place: int) -> tuple[int, int]:
        """The line around a place; a progress bar's `\\r` ends one too."""
        buffer = self._buffer
        first = max(0, place - LONGEST_LINE)
        start = buffer.rfind(b"\n", first, place) + 1 or first
        start = buffer.rfind(b"\r", start, place) + 1 or start
        end = buffer.find(b"\n", place, place + LONGEST_LINE)
        end = end if end >= 0 else min(place + LONGEST_LINE, len(buffer))
        glued = buffer.find(b"\r", place, end)
        return start, glued if glued >= 0 else end

    def _keep(self, span: tuple[int, int], found: set[bytes], ending: bool) -> None:
        text = _text(self._buffer[span[0] : span[1]])
        offset = self.size - len(self._buffer) + span[0]
        for pattern, matches in self._scanner.patterns.known(found, text):
            name = pattern.name
            if name in self.full and not ending:
                continue
            self._looks[name] = self._looks.get(name, 0) + 1
            if pattern.looks and self._looks[name] >= pattern.looks:
                self.full.add(name)
            if not matches or (offset, name) in self.hits:
                continue
            self._counts[name] = self._counts.get(name, 0) + 1
            if self._counts[name] >= pattern.limit:
                self.full.add(name)
            self.hits[offset, name] = Hit(
                pattern=name,
                line=0,
                offset=offset,
                text=text,
                head=self._head(span[0]),
                stamp=self._stamp(span),
                before=self._before(span[0], pattern.before),
                after=self._after(span[1], pattern.after),
            )

    def _head(self, place: int) -> str:
        start = self._buffer.rfind(b"\n", max(0, place - LONGEST_LINE), place) + 1
        return _text(re.split(rb"[\r\n]", self._buffer[start : start + HEAD], maxsplit=1)[0])

    def _stamp(self, span: tuple[int, int]) -> str:
        """The clock on a line, else the last one before it since the line that was kept last."""
        clock = self._scanner.clock
        if clock is None:
            return ""
        base = self.size - len(self._buffer)
        known, stamp = self._stamped
        start = max(0, span[0] - STAMP_BEFORE, known - base)
        own = clock.search(self._buffer, span[0], span[1])
        stamps = [own] if own else [*clock.finditer(self._buffer, start, span[0])]
        if stamps:
            stamp = _text(stamps[-1].group())
        self._stamped = base + span[1], stamp
        return stamp

    def _before(self, place: int, lines: int) -> tuple[str, ...]:
        if not lines:
            return ()
        part = self._buffer[max(0, place - LONGEST_LINE) : place]
        return tuple(_text(line) for line in part.split(b"\n")[-lines - 1 : -1])

    def _after(self, place: int, lines: int) -> tuple[str, ...]:
        if not lines:
            return ()
        part = self._buffer[place : place + AHEAD].split(b"\n", lines + 1)
        return tuple(_text(line[:LONGEST_LINE]) for line in part[1 : lines + 1])


def _text(raw: bytes) -> str:
    return _ANSI.sub(b"", raw).decode("utf-8", "replace")


def _numbered(path: str, hits: list[Hit], unnumbered: set[str]) -> Iterator[Hit]:
    """With the numbers of their lines. Counting lines takes a third of the time of a scan:
    a file in which nothing failed is spared it."""
    wanted = sorted({hit.offset for hit in hits if hit.pattern not in unnumbered})
    numbers: dict[int, int] = {}
    if wanted:
        with contextlib.suppress(OSError, EOFError), open_log(path) as file:
            numbers = dict(zip(wanted, _line_numbers(file, wanted), strict=False))
    for hit in hits:
        yield hit._replace(line=numbers.get(hit.offset, 0))


def _line_numbers(file: IO[bytes], offsets: list[int]) -> Iterator[int]:
    number, begin, waiting = 1, 0, iter(offsets)
    offset = next(waiting, None)
    for block in blocks(file):
        counted = 0
        while offset is not None and offset <= begin + len(block):
            number += block.count(b"\n", counted, offset - begin)
            counted = offset - begin
            yield number
            offset = next(waiting, None)
        if offset is None:
            return
        number += block.count(b"\n", counted)
        begin += len(block)
