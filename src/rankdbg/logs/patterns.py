"""Patterns for logs, and their hits: values exchanged with nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from rankdbg.logs.expressions import Expression, SlowExpression
from rankdbg.logs.places import LogFile


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
    # Whether a few of its lines are kept from all over a file, also when it has more than `limit`.
    sampled: bool = False
    torn: bool = True  # whether its lines are also looked for where two writers have torn them
    foreign: bool = False  # of a user: its regular expressions may never finish

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
    lines: int = 0  # that end in what was read, and before
    modified: float = 0.0
    beginning: str = ""
    ending: str = ""  # the last line
    first_stamp: str = ""  # the first clock in it, and the last
    last_stamp: str = ""
    last_stamp_at: int = 0  # its offset
    cut: bool = False  # whether it ends in the middle of a line
    full: frozenset[str] = frozenset()  # patterns with more lines than were kept
    slow: frozenset[str] = frozenset()  # patterns that took too long and were skipped
    error: str = ""  # why it could not be read completely
    file: LogFile | None = None  # its rank or process, if known
    now: float | None = None  # what the clock of its node shows, if its job runs
    idle: float | None = None  # seconds since something was written into it

    def as_json(self) -> dict[str, Any]:
        """For the wire: the client knows whose it is."""
        plain = {k: v for k, v in vars(self).items() if k not in ("file", "now")}
        sets = {"full": sorted(self.full), "slow": sorted(self.slow)}
        return {**plain, "hits": [[*hit] for hit in self.hits], **sets}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> FileScan:
        hits = tuple(
            Hit._make([*hit[:6], tuple(hit[6]), tuple(hit[7]), *hit[8:]]) for hit in value["hits"]
        )
        sets = {name: frozenset(value.get(name, ())) for name in ("full", "slow")}
        return FileScan(**{**value, "hits": hits, **sets})


class _OwnExpression:
    """Compiled when a line first needs it: a log meets few of 2,000, which take 0.4 s together."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def search(self) -> Callable[[str], re.Match[str] | None]:
        return re.compile(self._text).search


_Searched = _OwnExpression | Expression


class PatternSet:
    """Patterns, compiled, by their literals."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._by_literal: dict[bytes, list[tuple[Pattern, _Searched | None]]] = {}
        self._unless: dict[str, list[_Searched]] = {}
        self.slow: set[str] = set()  # patterns that took too long, and match nothing from then on
        for pattern in patterns:
            self._unless[pattern.name] = [_compiled(pattern, text) for text in pattern.unless]
            for literal, regex in pattern.match:
                entry = (pattern, _compiled(pattern, regex) if regex else None)
                self._by_literal.setdefault(literal.encode(), []).append(entry)

    def literals(self, full: Iterable[str] = (), torn: bool = False) -> list[bytes]:
        """Those that patterns which are not full need; only of those that mend torn lines."""
        done = set(full)
        return [
            literal
            for literal, entries in self._by_literal.items()
            if any(entry.name not in done and (entry.torn or not torn) for entry, _ in entries)
        ]

    def __contains__(self, literal: bytes) -> bool:
        return literal in self._by_literal

    def known(self, literals: Iterable[bytes]) -> list[Pattern]:
        """The patterns that look at a line with these literals."""
        entries = [entry for literal in literals for entry in self._by_literal[literal]]
        return list({pattern.name: pattern for pattern, _ in entries}.values())

    def matches(self, pattern: Pattern, literals: Iterable[bytes], text: str) -> bool:
        if pattern.name in self.slow:
            return False
        regexes = [
            regex
            for literal in literals
            for entry, regex in self._by_literal[literal]
            if entry.name == pattern.name
        ]
        try:
            found = any(regex is None or regex.search(text) for regex in regexes)
        except SlowExpression:
            self.slow.add(pattern.name)
            return False
        return found and not self.excludes(pattern, text)

    def excludes(self, pattern: Pattern, text: str) -> bool:
        try:
            return any(regex.search(text) for regex in self._unless[pattern.name])
        except SlowExpression:
            self.slow.add(pattern.name)
            return True


def _compiled(pattern: Pattern, text: str) -> _Searched:
    return Expression(text, pattern.name) if pattern.foreign else _OwnExpression(text)
