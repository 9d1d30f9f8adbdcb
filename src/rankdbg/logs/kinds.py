"""Kinds of messages, equal except for numbers; and the kinds that only some ranks have written."""

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
_IN_BAR = r"[█▏▎▍▌▋▊▉#=>\-\s]"
# From where it begins: from each of its characters, a long one without an end takes hours.
_BAR = re.compile(rf"(?<!{_IN_BAR}){_IN_BAR}{{2,}}\|")

Who = TypeVar("Who", bound=Hashable)


def normalised(text: str) -> str:
    """Equal for messages that differ only in numbers, addresses and hashes. nan and inf are words:
    a loss that is nan is another kind of message."""
    return _BLANKS.sub(" ", _NUMBER.sub("N", _BAR.sub("|", text))).strip()


@dataclass
class MessageKind(Generic[Who]):
    """One kind of message: the ranks that have written it, and the first one."""

    text: str
    time: float | None
    order: float
    count: int
    who: set[Who]


def kinds_of(
    written: Iterable[tuple[Who, float, float | None, str, int]],
) -> list[MessageKind[Who]]:
    """From (who, order, time, text, count), in the order of the first of each kind."""
    kinds: dict[str, MessageKind[Who]] = {}
    for who, order, time, text, count in sorted(written, key=lambda each: each[1]):
        kind = kinds.setdefault(normalised(text), MessageKind(text, time, order, 0, set()))
        kind.count += count
        kind.who.add(who)
    return [*kinds.values()]


def only_of(kinds: Iterable[MessageKind[Who]], group: set[Who]) -> list[MessageKind[Who]]:
    """Kinds written by ranks of the group only."""
    return [kind for kind in kinds if kind.who <= group]


def of_some(kinds: Iterable[MessageKind[Who]], all_ranks: set[Who]) -> list[MessageKind[Who]]:
    """Kinds that not all ranks have written; the fewest ranks, or fewest missing ranks, first."""
    some = [kind for kind in kinds if kind.who < all_ranks]
    return sorted(some, key=lambda kind: min(len(kind.who), len(all_ranks) - len(kind.who)))
