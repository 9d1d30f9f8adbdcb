"""Merges messages of many files: each message once, with the ranks that logged it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rankdbg.logs.entries import Entry
from rankdbg.logs.places import LogFile, named_rank
from rankdbg.selection import format_numbers
from rankdbg.types import Rank


class LogWriter(NamedTuple):
    """A rank by its number, by its role too if numbers are not enough, and by its pid if several
    processes have both; otherwise a name. Equal ones are one process."""

    number: int | None
    name: str


class WriterNames:
    """Names of the ranks and processes in logs."""

    def __init__(self, ranks: Sequence[Rank], files: Iterable[LogFile] = ()) -> None:
        numbers = [rank.number for rank in ranks if rank.number is not None]
        if not ranks:  # only files, some with a role and a rank in their names
            named = {(each.role, each.rank) for file in files if (each := named_rank(file.path))}
            numbers = [rank for _, rank in named]
        self._by_role = len(numbers) > len(set(numbers))
        counts = Counter((rank.number, rank.role) for rank in ranks)
        self._shared = {each for each, count in counts.items() if count > 1}

    def of(self, entry: Entry) -> LogWriter:
        if entry.rank is not None:
            return LogWriter(entry.rank, self._told_apart(entry.rank, entry.name, entry.pid))
        # Without a number, processes of one kind are distinguished by pid.
        return LogWriter(None, entry.name if entry.pid is None else f"{entry.name}:{entry.pid}")

    def of_rank(self, rank: Rank) -> LogWriter:
        if rank.number is not None:
            return LogWriter(rank.number, self._told_apart(rank.number, rank.role, rank.pid))
        return LogWriter(None, f"{rank.role}:{rank.pid}")

    def _told_apart(self, number: int, role: str, pid: int | None) -> str:
        if not self._by_role:
            return ""
        by_pid = pid is not None and (not role or (number, role) in self._shared)
        return f"{role} pid {pid}:".strip() if by_pid else role


def label(who: Iterable[LogWriter]) -> str:
    """`0-3,7`, `Trainer 0-3`, `launcher`: names all of them."""
    by_name: dict[str, list[int]] = {}
    others = []
    for each in who:
        if each.number is None:
            others.append(each.name)
        else:
            by_name.setdefault(each.name, []).append(each.number)
    parts = [f"{name} {format_numbers(by_name[name])}".strip() for name in sorted(by_name)]
    return ", ".join([*parts, *sorted(others)])
