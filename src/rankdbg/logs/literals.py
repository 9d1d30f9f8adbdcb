"""Finds many literals in a block of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any


def _automatons() -> Any:
    """The module, or None on a node that has only the agent's part of rankdbg. It may be sent
    there later."""
    try:
        return import_module("ahocorasick_rs")
    except ImportError:
        return None


class Literals:
    """One pass for all of them; where there is no automaton, step by step through the bytes
    (10 MB/s), which is for small parts of a log."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = list(literals)
        self.longest = max(map(len, literals), default=0)
        self._automaton = None
        self._by_start: dict[bytes, list[bytes]] = {}
        ahocorasick_rs = _automatons()
        self.fast = ahocorasick_rs is not None
        if self.fast and literals:
            self._automaton = ahocorasick_rs.BytesAhoCorasick(
                self._literals,
                matchkind=ahocorasick_rs.MatchKind.Standard,
                implementation=ahocorasick_rs.Implementation.DFA,
            )
        self._shortest = min(map(len, literals), default=0)
        for literal in [] if self.fast else self._literals:
            self._by_start.setdefault(literal[: self._shortest], []).append(literal)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._literals)

    def find(self, block: bytes, start: int, until: int) -> Iterator[tuple[bytes, int]]:
        """(literal, place) of all that begin in block[start:until], those that overlap too, by
        the place at which they end."""
        if self._automaton is None:
            yield from self._find_by_start(block, start, until)
            return
        part = memoryview(block)[start : until + self.longest]
        for number, place, _ in self._automaton.find_matches_as_indexes(part, overlapping=True):
            if place + start < until:
                yield self._literals[number], place + start

    def _find_by_start(self, block: bytes, start: int, until: int) -> Iterator[tuple[bytes, int]]:
        places, size = [], self._shortest
        for place in range(start, until):
            for literal in self._by_start.get(block[place : place + size], ()):
                if block.startswith(literal, place):
                    places.append((place + len(literal), place, literal))
        for _, place, literal in sorted(places):
            yield literal, place
