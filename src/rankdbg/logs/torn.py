"""Joins lines that two writers have torn, where the pieces of a literal fit.

    CUDA error: an illegal mem2026-03-01 10:00:00 step 12
    ory access was encountered

If a literal is cut once, one half is intact. The rest is searched nearby: later in the line, or
at the start of one of the next two lines.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

SHORTEST = 14  # a literal that is shorter has halves that stand everywhere
BETWEEN = 24  # a line that was written into another one is at least so long
FAR = 4 << 10  # of a line's piece, this much is taken
_LEAST = 4  # characters of a piece that may stand anywhere in a line, or a quarter of all

# How a line does not begin: in the middle of a word or sentence. Not "srun: error", nor
# "ncclCommInitRank".
_REST = re.compile(rb" ?(?![\w.\-\[\]()]+:(\s|\d+:)|[a-z]+[A-Z])[a-z.,:;)\]'\"%=/>|_-]")
# How another line begins, also within one.
_BEGINNING = (
    rb"\[?\d{4}-\d\d-\d\d[T ]\d\d:|\[rank\d+\]:|\([A-Z]\w* pid=\d|(DEBUG|INFO|WARNING|ERROR)[ :]"
)
# Lines of NCCL and progress bars too, where it is known where they begin.
_BEGINS = re.compile(_BEGINNING + rb"|[\w.-]{1,60}:\d+:\d+ \[\d|[A-Z][\w ]{0,60}: +\d+%")
_INSIDE = re.compile(rb"(?<=[^\s\[(])(" + _BEGINNING + rb")")


class Halves:
    """Halves of literals, by which these are found where they are torn."""

    def __init__(self, literals: Iterable[bytes], useless: Collection[bytes] = ()) -> None:
        """`useless` halves are too common: their literals are found whole or not at all."""
        self.literals: set[bytes] = set()
        self._of: dict[bytes, list[tuple[bytes, int]]] = {}
        for literal in literals:
            middle = len(literal) // 2
            if len(literal) < SHORTEST or {literal[:middle], literal[middle:]} & {*useless}:
                continue
            self.literals.add(literal)
            self._of.setdefault(literal[:middle], []).append((literal, 0))
            self._of.setdefault(literal[middle:], []).append((literal, middle))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._of)

    def __contains__(self, half: bytes) -> bool:
        return half in self._of

    def mend(
        self, buffer: bytes, span: tuple[int, int], half: bytes, place: int
    ) -> Iterator[tuple[bytes, int, bytes]]:
        """(literal, place, line) of each literal whose other part fits: where the mended line
        begins, and what it says."""
        for literal, offset in self._of[half]:
            if buffer.startswith(literal, place - offset):
                continue  # nothing is torn
            found = (
                _with_back(buffer, span, literal, place + len(half), len(half))
                if offset == 0
                else _with_front(buffer, span, literal, place, offset)
            )
            if found is not None:
                yield literal, *found


def _with_back(
    buffer: bytes, span: tuple[int, int], literal: bytes, cut: int, known: int
) -> tuple[int, bytes] | None:
    """Its front part ends at `cut`, or a little later; the rest is looked for behind it."""
    while known < len(literal) and buffer[cut : cut + 1] == literal[known : known + 1]:
        cut, known = cut + 1, known + 1
    # The line in between may happen to begin as the literal goes on.
    for back in range(min(2, known - len(literal) // 2 + 1)):
        rest, front = literal[known - back :], buffer[span[0] : cut - back]
        place = buffer.find(rest, cut + BETWEEN, span[1]) if _is_enough(rest, literal) else -1
        if place >= 0 and _is_cut(buffer, cut - back, rest, len(rest)):
            return span[0], front + buffer[place : span[1]]
        for start, end in lines_after(buffer, span[1]):
            if buffer.startswith(rest, start):
                return span[0], front + buffer[start:end]
    return None


def _with_front(
    buffer: bytes, span: tuple[int, int], literal: bytes, place: int, known: int
) -> tuple[int, bytes] | None:
    """Its back part begins at `place`, or a little before; the rest is looked for before it."""
    while known and place > span[0] and buffer[place - 1] == literal[known - 1]:
        place, known = place - 1, known - 1
    for on in range(2):
        front, back = literal[: known + on], buffer[place + on : span[1]]
        between = max(span[0], place - BETWEEN)
        at = buffer.rfind(front, span[0], between) if _is_enough(front, literal) else -1
        if at >= 0 and _is_cut(buffer, at + len(front), literal[len(front) :], len(front)):
            return span[0], buffer[span[0] : at + len(front)] + back
        if place + on > span[0] or not front:
            continue
        for start, end in lines_before(buffer, span[0]):
            at = buffer.rfind(front, start, end)
            cut = at + len(front)
            if at >= 0 and (cut == end or _is_cut(buffer, cut, literal[len(front) :], len(front))):
                return start, buffer[start : at + len(front)] + back
    return None


def _is_cut(buffer: bytes, place: int, rest: bytes, size: int) -> bool:
    """Whether a literal that is to go on with `rest` was cut here, by the smaller piece's size:
    within a word, or where another line begins. Words that only happen to follow each other are
    everywhere, and so are pieces of two or three letters."""
    within = buffer[place - 1 : place].isalnum() and rest[:1].isalnum()
    return (within and size >= _LEAST) or _BEGINS.match(buffer, place) is not None


def _is_enough(piece: bytes, literal: bytes) -> bool:
    return bool(piece) and (len(piece) >= _LEAST or 4 * len(piece) <= len(literal))


def joined(
    buffer: bytes, span: tuple[int, int], literals: Iterable[bytes]
) -> Iterator[tuple[int, bytes]]:
    """What a line with these literals may have been: with the line before it or the one before
    that, if it begins like the rest of one; with one of the next two that do. Lines that have
    such a literal themselves are their own."""
    line = buffer[span[0] : span[1]]
    if _REST.match(line):
        for start, end in lines_before(buffer, span[0]):
            other = buffer[start:end]
            if not any(literal in other for literal in literals):
                inside = _INSIDE.search(other)
                yield start, (other[: inside.start()] if inside else other) + line
    for start, end in lines_after(buffer, span[1]):
        other = buffer[start:end]
        if _REST.match(other) and not any(literal in other for literal in literals):
            yield span[0], line + other
            if inside := _INSIDE.search(line):
                yield span[0], line[: inside.start()] + other


def lines_after(buffer: bytes, end: int) -> Iterator[tuple[int, int]]:
    """The next two, if they are not long."""
    for _ in range(2):
        start = end + 1
        if start >= len(buffer):
            return
        end = buffer.find(b"\n", start, start + FAR)
        end = end if end >= 0 else min(len(buffer), start + FAR)
        yield start, end


def lines_before(buffer: bytes, start: int) -> Iterator[tuple[int, int]]:
    """The two before, the nearer one first."""
    for _ in range(2):
        end = start - 1
        if end <= 0:
            return
        start = buffer.rfind(b"\n", max(0, end - FAR), end) + 1 or max(0, end - FAR)
        yield start, end
