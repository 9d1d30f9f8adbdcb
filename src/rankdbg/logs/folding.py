"""Folds equal messages of several ranks into one, with these ranks.

Nothing is lost: unfolding returns the messages of every rank, in the order of that rank. A
message joins an earlier equal one only if its rank has written nothing in between and has not
joined it before; so two equal messages of one rank stay two. Messages must be equal to the last
digit: another step number is another message.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

# Seconds: equal messages further apart are not folded: the second rank is late.
APART = 10.0

Who = TypeVar("Who", bound=Hashable)


@dataclass
class Fold(Generic[Who]):
    text: str
    number: int  # its place among all
    first: float | None  # clocks; None: there are none
    last: float | None
    who: dict[Who, None] = field(default_factory=dict)  # in the order in which they came


class Folder(Generic[Who]):
    """Messages in, in the order of their times; folds out, in the same order."""

    def __init__(self, apart: float = APART) -> None:
        self._apart = apart
        self._made = 0
        self._open: deque[Fold[Who]] = deque()
        self._by_text: dict[str, list[Fold[Who]]] = {}
        self._last_of: dict[Who, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, who: Who, time: float | None, text: str) -> Fold[Who]:
        fold = self._joinable(who, time, text) or self._begin(time, text)
        fold.who[who] = None
        fold.last = time
        self._last_of[who] = fold.number
        return fold

    def _joinable(self, who: Who, time: float | None, text: str) -> Fold[Who] | None:
        """The first equal one after the last message of this rank. Too old ones are dropped: times
        only grow."""
        same = self._by_text.get(text, [])
        begin = bisect_right(same, self._last_of.get(who, -1), key=lambda fold: fold.number)
        while begin < len(same) and self._is_too_old(same[begin], time):
            begin += 1
        if time is not None:
            old = next((n for n, f in enumerate(same) if not self._is_too_old(f, time)), len(same))
            del same[:old]
            begin -= old
        return same[begin] if begin < len(same) else None

    def _is_too_old(self, fold: Fold[Who], time: float | None) -> bool:
        """Without timestamps, only the order counts."""
        return time is not None and fold.first is not None and time - fold.first > self._apart

    def _begin(self, time: float | None, text: str) -> Fold[Who]:
        fold: Fold[Who] = Fold(text, self._made, time, time)
        self._made += 1
        self._open.append(fold)
        self._by_text.setdefault(text, []).append(fold)
        return fold

    def take(self, before: int | None = None) -> Iterator[Fold[Who]]:
        """Folds with a smaller number (None: all), which are complete."""
        while self._open and (before is None or self._open[0].number < before):
            fold = self._open.popleft()
            same = self._by_text.get(fold.text)
            if same and same[0] is fold:
                del same[0]
            if not same:
                self._by_text.pop(fold.text, None)
            yield fold


def fold(written: Iterable[tuple[Who, float | None, str]], apart: float = APART) -> list[Fold[Who]]:
    """From (who, time, text)."""
    folder: Folder[Who] = Folder(apart)
    for who, time, text in written:
        folder.add(who, time, text)
    return [*folder.take()]
