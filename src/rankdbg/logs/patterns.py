"""What is looked for in logs, and what comes back: values that travel to a node and home."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Pattern:
    """A literal for the fast scan, and a regular expression for the lines that have it."""

    name: str
    match: tuple[tuple[str, str], ...]  # (literal, regular expression, or empty: it is enough)
    unless: tuple[str, ...] = ()
    before: int = 0  # how many lines before the hit are wanted
    after: int = 0
    limit: int = 2000  # lines of a file that are kept; then only those at its end
    numbered: bool = True  # whether the numbers of its lines are wanted
    looks: int = 0  # lines with its literal that are looked at; then only those at the end

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "match": [list(pair) for pair in self.match]}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Pattern:
        pairs = tuple((literal, regex) for literal, regex in value["match"])
        return Pattern(**{**value, "match": pairs, "unless": tuple(value["unless"])})


class Hit(NamedTuple):
    pattern: str
    line: int  # its number, from 1; 0 if it was not asked for
    offset: int
    text: str  # the line, or of a progress bar what stands between two carriage returns
    head: str  # how the whole line begins: its prefixes
    stamp: str  # the clock on this line, or the last one before it
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileScan:
    path: str
    hits: tuple[Hit, ...] = ()
    size: int = 0  # bytes that were read; of a compressed file, of its contents
    modified: float = 0.0
    beginning: str = ""
    ending: str = ""  # the last line
    full: frozenset[str] = frozenset()  # patterns with more lines than were kept
    error: str = ""  # why it could not be read, or not to its end


class PatternSet:
    """Patterns, compiled, by their literals."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._by_literal: dict[bytes, list[tuple[Pattern, re.Pattern[str] | None]]] = {}
        self._unless: dict[str, list[re.Pattern[str]]] = {}
        for pattern in patterns:
            self._unless[pattern.name] = [re.compile(text) for text in pattern.unless]
            for literal, regex in pattern.match:
                entry = (pattern, re.compile(regex) if regex else None)
                self._by_literal.setdefault(literal.encode(), []).append(entry)

    def literals(self, full: Iterable[str] = ()) -> list[bytes]:
        """Those that patterns which are not full need."""
        done = set(full)
        return [
            literal
            for literal, entries in self._by_literal.items()
            if any(pattern.name not in done for pattern, _ in entries)
        ]

    def known(self, literals: Iterable[bytes], text: str) -> Iterator[tuple[Pattern, bool]]:
        """The patterns that look at a line with these literals, and whether it matches."""
        seen: dict[str, tuple[Pattern, bool]] = {}
        for literal in literals:
            for pattern, regex in self._by_literal[literal]:
                if not seen.get(pattern.name, (pattern, False))[1]:
                    seen[pattern.name] = pattern, regex is None or bool(regex.search(text))
        for name, (pattern, matches) in seen.items():
            yield pattern, matches and not any(r.search(text) for r in self._unless[name])
