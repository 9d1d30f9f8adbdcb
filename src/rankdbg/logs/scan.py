"""Scans a log file of any size for the patterns of a question.

Literals first, in one pass, then regular expressions on lines that contain one. There are
no rules here, so that a node can run it. Memory does not grow with the file: it is read in
blocks, a pattern keeps its first `limit` lines, and is then searched only at the end; some are
also looked for in small samples on the way there.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from rankdbg.logs.files import BLOCK, blocks, open_log
from rankdbg.logs.grams import Grams
from rankdbg.logs.grep import Grep
from rankdbg.logs.literals import Literals
from rankdbg.logs.patterns import FileScan, Hit, Pattern, PatternSet
from rankdbg.logs.torn import Halves, joined

AHEAD = 64 << 10  # what is this close to the end of a block waits: its lines may go on
ENDING = 64 << 10  # the end of a file, in which every pattern is looked for
LONGEST_LINE = 16 << 10  # of a longer line, this much around the hit is looked at
HEAD = 240  # of a line's beginning, where its prefixes are
STAMP_BEFORE = 4 << 10  # how far back a clock is looked for
STRIDE = 64 << 10  # the first step through a file; each is twice as long as the one before
SAMPLED = 4 << 10  # of each step through a file, where only samples of a pattern are wanted
SAMPLED_LINES = 4  # with one of its literals, of such a sample
MOST_SAMPLES = 400  # lines of a pattern that samples have found
AGAIN = 32  # after this many steps, grams are chosen again if the log has changed
ENOUGH = 256 << 10  # with such a step, the file is worth choosing grams for it
PIECE = 32 << 10  # in which lines are counted
SAMPLE = 64 << 10  # of a log, by which grams are chosen
IN_VAIN = 300  # so often pieces of torn lines are looked for and not found; then no more
ENDING_OF_MANY, IN_VAIN_OF_MANY = 4 << 10, 40  # where files of many ranks tell the same
MOST_SOUGHT = 256  # combinations of full patterns that are kept
OUT_OF_TIME = "not read completely in time"

MOST_DIGITS = 1000  # Python refuses to read a number of more than 4,300
SHOWN_DIGITS = 20
_ENDLESS_NUMBER = re.compile(rb"\d{%d,}" % MOST_DIGITS)
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Scanner:
    """All patterns, compiled once for many files. `many`: there are so many that less of each is
    enough."""

    def __init__(self, patterns: Sequence[Pattern], clock: str = "", many: bool = False) -> None:
        self.ending = ENDING_OF_MANY if many else ENDING
        self.in_vain = IN_VAIN_OF_MANY if many else IN_VAIN
        self.patterns = PatternSet(patterns)
        self.halves = Halves(self.patterns.literals(torn=True))
        self.needles = Literals([*{*self.patterns.literals(), *self.halves}])
        self.sampled = frozenset(pattern.name for pattern in patterns if pattern.sampled)
        self.clock = re.compile(clock.encode()) if clock else None
        self._grams: Grams | None = None
        self._sought: dict[tuple[frozenset[str], frozenset[bytes]], SearchedLiterals] = {}
        self.grep = None if self.needles.fast else Grep.of([*self.needles])

    def regions(self, full: set[str], useless: set[bytes], sample: bytes) -> Grams | Grep | None:
        """Where the patterns that are not full may be found in a log such as this. Grams are
        kept for other files: they cost 50 ms, and files of a job are alike."""
        if not (self.needles.fast or self.grep):
            return None
        sought = self.sought(full, useless)
        if self.grep:
            return self.grep.only(sought.needed)
        if sought.grams is None and self._grams is not None:
            sought.grams = self._grams.only(sought.needed)
        if sought.grams is None or sought.grams.often(memoryview(sample)):
            sought.grams = self._grams = Grams.of(sought.needed, sample)
        return sought.grams

    def sought(self, full: set[str], useless: set[bytes]) -> SearchedLiterals:
        """What a file with these full patterns is still searched for. Files of a job are alike."""
        key = frozenset(full), frozenset(useless)
        if key not in self._sought:
            if len(self._sought) >= MOST_SOUGHT:
                self._sought.clear()
            whole = {*self.patterns.literals(full)}
            halves = Halves(self.patterns.literals(full, torn=True), useless)
            needed = whole - halves.literals | {*halves}
            self._sought[key] = SearchedLiterals(needed, alive=whole | {*halves})
        return self._sought[key]

    def scan(
        self,
        path: str,
        begin: int = 0,
        deadline: float = float("inf"),
        read: tuple[int, int] = (0, 0),
    ) -> FileScan:
        """One file, from the line that begins there; `read` are the bytes of it that were read
        before, and the lines that ended in them. If it cannot be read, or not in time (by
        time.monotonic()), `error` says why; nothing is raised."""
        reading = _Reading(self, begin, read)
        modified, error = 0.0, ""
        try:
            with open_log(path) as file:
                modified = os.stat(path).st_mtime
                if begin:
                    file.seek(begin)
                for place, block in blocks(file):
                    reading.go_to(place)
                    reading.add(block)
                    if time.monotonic() > deadline:
                        error = OUT_OF_TIME
                        break
        except OSError as failure:
            error = failure.strerror or str(failure)
        except Exception as failure:  # gzip, lzma, zlib and zstd each have errors of their own
            error = f"{type(failure).__name__}: {failure}"
        reading.finish()
        return FileScan(
            path=path,
            hits=tuple(reading.hits[key] for key in sorted(reading.hits)),
            size=reading.size,
            lines=reading.lines,
            modified=modified,
            beginning=_text(reading.beginning),
            ending=reading.ending,
            first_stamp=self._first_stamp(reading.beginning),
            last_stamp=reading.last_stamp,
            last_stamp_at=reading.last_stamp_at,
            cut=reading.cut,
            full=frozenset(reading.full),
            slow=frozenset(self.patterns.slow),
            error=error,
        )

    def _first_stamp(self, beginning: bytes) -> str:
        found = self.clock.search(beginning) if self.clock else None
        return _text(found.group()) if found else ""


class SearchedLiterals:
    """Literals of patterns that are not full. `needed`: by their halves where lines may be torn;
    `alive`: whole ones and halves, a line with none of them is passed over. `grams`: by which
    they were found last."""

    def __init__(self, needed: set[bytes], alive: set[bytes]) -> None:
        self.needed, self.alive = needed, alive
        self.grams: Grams | None = None


class _Reading:
    """The state of the scan of one file."""

    def __init__(self, scanner: Scanner, begin: int, read: tuple[int, int]) -> None:
        self._scanner = scanner
        self._read = read
        self._regions: Grams | Grep | None = scanner.grep
        self._buffer = b""
        self._stride = STRIDE
        self._strides = 0
        self._done = 0  # how much of the buffer has been looked at
        self._counted = 0  # and in how much of it lines were counted: so many, with those before
        self.lines = 0
        self._counts: dict[str, int] = {}  # lines that match, by pattern
        self._looks: dict[str, int] = {}  # lines with its literal
        self._in_vain: dict[bytes, int] = {}  # halves, and patterns, that were of no torn line
        self._useless: set[bytes] = set()
        self._sought = scanner.sought(set(), set())
        self.hits: dict[tuple[int, str], Hit] = {}
        self.full: set[str] = set()
        self._samples: dict[str, list[int]] = {}  # places of hits, by pattern
        self._stamped = (0, "")  # up to where clocks were looked for, and the last one
        self.size = begin  # the place in the file up to which it was read
        self.beginning = b""
        self.ending = ""
        self.last_stamp = ""
        self.last_stamp_at = 0
        self.cut = False

    def go_to(self, place: int) -> None:
        """Over a hole, in which nothing was ever written: what stands before it ends there."""
        if place <= self.size:
            return
        self._look_on(len(self._buffer))
        self._count_lines(len(self._buffer))
        self._buffer = b""
        self._done = self._counted = 0
        self.size = place

    def add(self, block: bytes) -> None:
        self.size += len(block)
        if len(self.beginning) < 4096:
            self.beginning = (self.beginning + block)[:4096]
        self._buffer += block
        self._go_on_counting()
        until = len(self._buffer) - AHEAD
        if until <= self._done:
            return
        line_end = self._buffer.rfind(b"\n", max(self._done, until - LONGEST_LINE), until)
        until = line_end + 1 or until
        self._look_on(until)
        passed = max(0, until - ENDING)
        self._count_lines(max(passed, self._counted))
        self._buffer = self._buffer[passed:]
        self._done, self._counted = until - passed, self._counted - passed

    def finish(self) -> None:
        end = len(self._buffer)
        self._look_on(end)
        if self.full:
            self._stamped = (0, "")
            self._look(max(0, end - self._scanner.ending), end, frozenset(self.full))
        self._count_lines(end)
        last = self._buffer[-LONGEST_LINE:].rstrip().rsplit(b"\n", 1)[-1].rsplit(b"\r", 1)[-1]
        self.ending = _text(last)[:HEAD]
        self.cut = bool(self._buffer) and not self._buffer.endswith((b"\n", b"\r"))
        self._find_last_stamp()

    def _find_last_stamp(self) -> None:
        """Near the end first: a long tail without clocks is rare."""
        clock, end = self._scanner.clock, len(self._buffer)
        for near in (STAMP_BEFORE, ENDING) if clock is not None else ():
            if clock and (found := [*clock.finditer(self._buffer, max(0, end - near))]):
                self.last_stamp = _text(found[-1].group())
                self.last_stamp_at = self.size - end + found[-1].start()
                return

    def _go_on_counting(self) -> None:
        """From what was read before, some of which is read again."""
        place = self._read[0] - (self.size - len(self._buffer))
        if self._read[1] and 0 <= place <= len(self._buffer):
            self.lines += self._read[1] - _newlines(self._buffer, 0, place)
            self._read = 0, 0

    def _count_lines(self, place: int) -> int:
        """Those that end before this place in the buffer."""
        if place < self._counted:
            return self.lines - _newlines(self._buffer, place, self._counted)
        self.lines += _newlines(self._buffer, self._counted, place)
        self._counted = place
        return self.lines

    def _look_on(self, until: int) -> None:
        """In small steps as long as patterns fill up: steps of a training fill theirs at once."""
        while self._done < until:
            stop = min(self._done + self._stride, until)
            known = len(self.full), len(self._useless)
            self._look(self._done, stop)
            if sought := self._scanner.sampled & self.full:
                self._look(max(self._done, stop - SAMPLED), stop, sought, most=SAMPLED_LINES)
                self._thin_out(sought)
            changed = known != (len(self.full), len(self._useless))
            self._strides += 1
            again = changed or self._strides % AGAIN == 0 or self._regions is self._scanner.grep
            if again and (self._stride >= ENOUGH or self._sought.grams is not None):
                sample = self._buffer[max(0, stop - SAMPLE) : stop]
                self._regions = self._scanner.regions(self.full, self._useless, sample)
            if not changed:
                self._stride = min(2 * self._stride, BLOCK)
            self._done = stop

    def _thin_out(self, sampled: Iterable[str]) -> None:
        """Every second sample is enough, where there are many."""
        for name in sampled:
            places = self._samples.get(name, [])
            if len(places) > MOST_SAMPLES:
                for place in places[1::2]:
                    del self.hits[place, name]
                del places[1::2]

    def _look(
        self, start: int, until: int, full: frozenset[str] = frozenset(), most: int = -1
    ) -> None:
        """Gathers the needles of each line; a line is dealt with when the next one begins. `full`:
        patterns that are full, and of which alone more lines are wanted; empty: of all others.
        `most`: lines that are dealt with."""
        span, found = (0, 0), list[tuple[bytes, int]]()
        left = most
        for needle, place in chain(self._needles(start, until, full), [(b"", until)]):
            if not needle or not span[0] <= place < span[1]:
                if found:
                    self._deal_with(span, found, full)
                    left -= 1
                if not left:
                    return
                if needle:
                    span, found = self._span(place), []
            found.append((needle, place))

    def _needles(self, start: int, until: int, full: frozenset[str]) -> Iterator[tuple[bytes, int]]:
        needles = self._scanner.needles
        likely = self._scanner.grep if full else self._regions
        regions: Iterable[tuple[int, int]] = [(start, until)]
        if likely is not None:
            regions = likely.regions(memoryview(self._buffer), start, until)
        for region in regions:
            for each in needles.find(self._buffer, *region):
                if full or each[0] in self._sought.alive:
                    yield each

    def _deal_with(
        self, span: tuple[int, int], found: list[tuple[bytes, int]], full: frozenset[str]
    ) -> None:
        patterns, halves = self._scanner.patterns, self._scanner.halves
        if literals := {needle for needle, _ in found if needle in patterns}:
            self._keep(span, literals, self._buffer[span[0] : span[1]], full)
        if full and full <= self._scanner.sampled:
            return  # lines of which samples are taken are not looked for in pieces
        for half, place in found:
            if half in halves and half not in self._useless:
                mended = [*halves.mend(self._buffer, span, half, place)]
                for literal, start, line in mended:
                    self._keep((start, span[1]), {literal}, line, full)
                if not mended:
                    self._count_in_vain(half)

    def _count_in_vain(self, what: bytes) -> None:
        self._in_vain[what] = self._in_vain.get(what, 0) + 1
        if self._in_vain[what] > self._scanner.in_vain:
            self._useless.add(what)
            self._seek_less()

    def _fill(self, name: str) -> None:
        if name not in self.full:
            self.full.add(name)
            self._seek_less()

    def _seek_less(self) -> None:
        self._sought = self._scanner.sought(self.full, self._useless)

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

    def _keep(
        self, span: tuple[int, int], literals: set[bytes], line: bytes, full: frozenset[str]
    ) -> None:
        text, base = _text(line), self.size - len(self._buffer)
        others: list[tuple[int, str]] | None = None
        for pattern in self._scanner.patterns.known(literals):
            name, start, said = pattern.name, span[0], text
            if name in self.full and name not in full:
                continue
            self._looks[name] = self._looks.get(name, 0) + 1
            if pattern.looks and self._looks[name] >= pattern.looks:
                self._fill(name)
            if not self._scanner.patterns.matches(pattern, literals, text):
                vain = name.encode()
                excluded = self._scanner.patterns.excludes(pattern, text)
                if not pattern.torn or excluded or vain in self._useless:
                    continue
                self._count_in_vain(vain)
                if others is None:
                    wholes = joined(self._buffer, span, literals)
                    others = [(at, _text(whole)) for at, whole in wholes]
                matching = (
                    other
                    for other in others
                    if self._scanner.patterns.matches(pattern, literals, other[1])
                )
                start, said = next(matching, (-1, ""))
            if start < 0 or (base + start, name) in self.hits:
                continue
            self._counts[name] = self._counts.get(name, 0) + 1
            if self._counts[name] >= pattern.limit:
                self._fill(name)
            if name in full:
                self._samples.setdefault(name, []).append(base + start)
            self.hits[base + start, name] = Hit(
                pattern=name,
                line=1 + self._count_lines(start) if pattern.numbered else 0,
                offset=base + start,
                text=said,
                head=self._head(start),
                stamp=self._stamp((start, span[1])),
                before=self._before(start, pattern.before),
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
        part = _text(self._buffer[place : place + AHEAD]).split("\n", lines + 1)
        return tuple(line[:LONGEST_LINE] for line in part[1 : lines + 1])


def _text(raw: bytes) -> str:
    raw = _ANSI.sub(b"", raw)
    if len(raw) > MOST_DIGITS:
        raw = _ENDLESS_NUMBER.sub(_first_digits, raw)
    return raw.decode("utf-8", "replace")


def _first_digits(number: re.Match[bytes]) -> bytes:
    """Still a number, for patterns and records that want one."""
    return number[0][:SHOWN_DIGITS]


def _newlines(buffer: bytes, start: int, end: int) -> int:
    """As `count` does, which stops at each: taking them out is four times as fast. In pieces, for
    which the memory of the last one is used again."""
    pieces = (buffer[place : min(place + PIECE, end)] for place in range(start, end, PIECE))
    return end - start - sum(len(piece.replace(b"\n", b"")) for piece in pieces)
