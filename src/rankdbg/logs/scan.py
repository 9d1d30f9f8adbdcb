"""Reads a log file of any size for patterns that come with the question.

Literals first, all at once, then regular expressions on the lines that have one. Nothing
here knows a rule; a node can run it. Memory does not grow with the file: it is read in
blocks, a pattern keeps its first `limit` lines, and is then looked for in the end only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from rankdbg.logs.files import blocks, open_log
from rankdbg.logs.literals import Literals
from rankdbg.logs.patterns import FileScan, Hit, Pattern, PatternSet

AHEAD = 64 << 10  # what is this close to the end of a block waits: its lines may go on
ENDING = 256 << 10  # the end of a file, in which every pattern is looked for
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
        return FileScan(
            path=path,
            hits=tuple(reading.hits[key] for key in sorted(reading.hits)),
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
        self._done = 0  # how much of the buffer has been looked at
        self._lines = 0  # line ends before the buffer
        self._counts: dict[str, int] = {}
        self.hits: dict[tuple[int, str], Hit] = {}
        self.full: set[str] = set()
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
        self._look(self._done, until, self._literals)
        passed = max(0, until - ENDING)
        self._lines += self._buffer.count(b"\n", 0, passed)
        self._buffer = self._buffer[passed:]
        self._done = until - passed

    def finish(self) -> None:
        end = len(self._buffer)
        self._look(self._done, end, self._literals)
        if self.full:
            self._look(max(0, end - ENDING), end, self._scanner.literals, ending=True)
        last = self._buffer[-LONGEST_LINE:].rstrip().rsplit(b"\n", 1)[-1].rsplit(b"\r", 1)[-1]
        self.ending = _text(last)[:HEAD]

    def _look(self, start: int, until: int, literals: Literals, ending: bool = False) -> None:
        """Gathers the literals of each line; a line is dealt with when the next one begins."""
        counted, lines = 0, self._lines
        span, found, full = (0, 0), set[bytes](), len(self.full)
        for literal, place in [*literals.find(self._buffer, start, until), (b"", until)]:
            if literal and span[0] <= place < span[1]:
                found.add(literal)
                continue
            if found:
                lines += self._buffer.count(b"\n", counted, span[0])
                counted = span[0]
                self._keep(span, found, lines + 1, ending)
            if literal:
                span, found = self._span(place), {literal}
        if len(self.full) > full:
            self._literals = Literals(self._scanner.patterns.literals(self.full))

    def _span(self, place: int) -> tuple[int, int]:
        """The line around a place; a progress bar's `\\r` ends one too."""
        buffer, first, last = self._buffer, max(0, place - LONGEST_LINE), place + LONGEST_LINE
        start = max(buffer.rfind(mark, first, place) for mark in (b"\n", b"\r")) + 1
        ends = [buffer.find(mark, place, last) for mark in (b"\n", b"\r")]
        end = min((end for end in ends if end >= 0), default=min(last, len(buffer)))
        return start or first, end

    def _keep(self, span: tuple[int, int], found: set[bytes], line: int, ending: bool) -> None:
        text = _text(self._buffer[span[0] : span[1]])
        offset = self.size - len(self._buffer) + span[0]
        for pattern in self._scanner.patterns.matching(found, text):
            name = pattern.name
            if (offset, name) in self.hits or (name in self.full and not ending):
                continue
            self._counts[name] = self._counts.get(name, 0) + 1
            if self._counts[name] >= pattern.limit:
                self.full.add(name)
            self.hits[offset, name] = Hit(
                pattern=name,
                line=line,
                offset=offset,
                text=text,
                head=self._head(span[0]),
                stamp=self._stamp(span),
                before=self._before(span[0], pattern.before),
                after=self._after(span[1], pattern.after),
            )

    def _head(self, place: int) -> str:
        start = self._buffer.rfind(b"\n", max(0, place - LONGEST_LINE), place) + 1
        return _text(self._buffer[start : start + HEAD].split(b"\r")[0])

    def _stamp(self, span: tuple[int, int]) -> str:
        if self._scanner.clock is None:
            return ""
        own = self._scanner.clock.search(self._buffer, span[0], span[1])
        if own:
            return _text(own.group())
        last = None
        for last in self._scanner.clock.finditer(
            self._buffer, max(0, span[0] - STAMP_BEFORE), span[0]
        ):
            pass
        return _text(last.group()) if last else ""

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
