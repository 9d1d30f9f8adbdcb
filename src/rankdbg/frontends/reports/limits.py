"""Operations that will not wait for a rank that stands in the debugger: they began before
timeouts were held, and keep the limits that they had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankdbg import grouping
from rankdbg.frontends.reports.ranks import label
from rankdbg.frontends.terminal import Terminal, duration
from rankdbg.types import Answer, Rank, Silence


class LimitReport:
    """From answers that have `in_flight`, and `refused`: groups that cannot be held."""

    def __init__(self, answers: Sequence[Answer | Silence], everybody: Sequence[Rank]) -> None:
        self.everybody = everybody
        values = [(a.rank, a.value) for a in answers if isinstance(a, Answer)]
        self.operations: list[tuple[Rank, dict[str, Any]]] = [
            (rank, entry) for rank, value in values for entry in value.get("in_flight", ())
        ]
        self.refused: list[tuple[Rank, str]] = [
            (rank, name) for rank, value in values for name in value.get("refused", ())
        ]

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {"rank": rank.number, "pid": rank.pid, "host": rank.host, **entry}
            for rank, entry in self.operations
        ]

    def print(self, terminal: Terminal) -> None:
        for sentence, members in grouping.group_equal(self._sentences()):
            who = label(members, self.everybody)
            several = "ranks" if len(members) > 1 else "rank"
            terminal.print(f"{terminal.red('warning:')} {several} {who}: {sentence}")

    def _sentences(self) -> list[tuple[Rank, str]]:
        """Those that differ only in the time left are equal, with the least of it."""
        least: dict[tuple[Any, ...], float] = {}
        for _, entry in self.operations:
            if entry["left"] is not None:
                least[_kind(entry)] = min(entry["left"], least.get(_kind(entry), entry["left"]))
        told = [(rank, _sentence(e, least.get(_kind(e)))) for rank, e in self.operations]
        told += [
            (rank, f"the timeout of group {name} cannot be held") for rank, name in self.refused
        ]
        return told


def _kind(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry["operation"], entry["group"], entry["limit"]


def _sentence(entry: dict[str, Any], left: float | None) -> str:
    group = f" of group {entry['group']}" if entry["group"] else ""
    began = f"{entry['operation']}{group} began before timeouts were held and keeps its limit"
    if left is None:
        return began
    return f"{began} of {duration(entry['limit'])}: {duration(left)} left"
