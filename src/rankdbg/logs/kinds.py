"""Kinds of messages: what is the same in all of them, whatever numbers they have; and which kinds
some ranks have written and others have not."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

_NUMBER = re.compile(
    r"0x[0-9a-fA-F]+"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,}\b"  # hashes
    r"|[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?"
)
_BLANKS = re.compile(r"[ \t]+")
# A bar of a progress has another length each time.
_BAR = re.compile(r"[█▏▎▍▌▋▊▉#=>\-\s]{2,}\|")

Who = TypeVar("Who", bound=Hashable)


def normalised(text: str) -> str:
    """The same for messages that differ in numbers, addresses and hashes alone. nan and inf are
    words: a loss that is nan is another kind of message."""
    return _BLANKS.sub(" ", _NUMBER.sub("N", _BAR.sub("|", text))).strip()


@dataclass
class Kind(Generic[Who]):
    """One kind of message: who has written it, and the first of them."""

    text: str
    time: float | None
    order: float
    count: int
    who: set[Who]


def kinds_of(
    written: Iterable[tuple[Who, float, float | None, str, int]],
) -> list[Kind[Who]]:
    """From (who, order, time, text, count), in the order of the first of each kind."""
    kinds: dict[str, Kind[Who]] = {}
    for who, order, time, text, count in sorted(written, key=lambda each: each[1]):
        kind = kinds.setdefault(normalised(text), Kind(text, time, order, 0, set()))
        kind.count += count
        kind.who.add(who)
    return [*kinds.values()]


def only_of(kinds: Iterable[Kind[Who]], group: set[Who]) -> list[Kind[Who]]:
    """What somebody in the group has written, and nobody else."""
    return [kind for kind in kinds if kind.who <= group]


def of_some(kinds: Iterable[Kind[Who]], everybody: set[Who]) -> list[Kind[Who]]:
    """What not all have written; those with the fewest first, or with the fewest missing."""
    some = [kind for kind in kinds if kind.who < everybody]
    return sorted(some, key=lambda kind: min(len(kind.who), len(everybody) - len(kind.who)))
