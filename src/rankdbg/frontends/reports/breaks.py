"""What ranks say about breaks: set, cleared, listed; equal answers once."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankdbg import grouping
from rankdbg.frontends.reports.ranks import label, print_silent, silent_json
from rankdbg.frontends.terminal import Terminal
from rankdbg.selection import format_ranks
from rankdbg.types import Answer, Rank, Silence

if TYPE_CHECKING:
    from rankdbg.frontends.cli.break_ import Place


class _Report(ABC):
    def __init__(self, answers: Sequence[Answer | Silence], everybody: Sequence[Rank]) -> None:
        self.everybody = everybody
        self.silent = [silence for silence in answers if isinstance(silence, Silence)]
        self.answers = [answer for answer in answers if isinstance(answer, Answer)]
        self.good = bool(self.answers)

    def as_json(self) -> dict[str, Any]:
        groups = grouping.group_equal((a.rank, _frozen(a.value)) for a in self.answers)
        values = {_frozen(a.value): a.value for a in self.answers}
        return {
            "groups": [
                {"ranks": format_ranks(members, self.everybody), **values[key]}
                for key, members in groups
            ],
            "silent": silent_json(self.silent),
        }

    def print(self, terminal: Terminal) -> None:
        sentences = ((a.rank, line) for a in self.answers for line in self.lines(a.value))
        for text, members in grouping.group_equal(sentences):
            terminal.print(f"{terminal.bold(label(members, self.everybody))}  {text}")
        print_silent(terminal, self.silent, self.everybody)

    @abstractmethod
    def lines(self, value: dict[str, Any]) -> list[str]:
        """What one rank says, as sentences."""


class BreakReport(_Report):
    """After one was set."""

    def __init__(
        self, answers: Sequence[Answer | Silence], everybody: Sequence[Rank], place: Place
    ) -> None:
        super().__init__(answers, everybody)
        self.place = place
        self.good = any(a.value["state"] in ("set", "waits") for a in self.answers)

    def lines(self, value: dict[str, Any]) -> list[str]:
        file, line = self.place.file, self.place.line
        files = ", ".join(value["files"])
        if value["state"] == "no file":
            near = f"; there is {files}" if files else ""
            return [f"no file {file} in its code{near}"]
        if value["state"] == "no code":
            near = ", ".join(f"{name}:{at}" for name, at in value["nearest"].items())
            return [f"no code at {file}:{line}; nearest line with code: {near or 'none'}"]
        found = ", ".join(f"{name}:{line}" for name in value["files"])
        lines = [f"set at {found}"]
        if value["state"] == "waits":
            lines = [f"set at {found}, which is not loaded yet"]
        if value["missed"]:
            who = ", ".join(value["missed"])
            lines.append(f"not yet in threads that were running before: {who}")
        return lines


class ClearReport(_Report):
    def lines(self, value: dict[str, Any]) -> list[str]:
        places = ", ".join(f"{file}:{line}" for file, line in value["cleared"])
        return [f"cleared {places}" if places else "no such break is set"]


class BreakList(_Report):
    def lines(self, value: dict[str, Any]) -> list[str]:
        lines = [line for entry in value["breaks"] for line in _described(entry)]
        return lines or ["no breaks"]


def _described(entry: dict[str, Any]) -> list[str]:
    words = [f"{entry['file']}:{entry['line']}"]
    words += [f"if {entry['condition']}"] * bool(entry["condition"])
    words += [f"log {entry['log']!r}"] * bool(entry["log"])
    words.append(f"({entry['hits']} hits)" if entry["hits"] != 1 else "(1 hit)")
    lines = [" ".join(words)]
    if entry["error"]:
        lines.append(f"  failed: {entry['error']}")
    name = os.path.basename(entry["file"])
    return lines + [f"  {name}:{entry['line']} {text}" for text in entry["logged"]]


def _frozen(value: Any) -> Any:
    """As something that can be compared and counted."""
    if isinstance(value, dict):
        return tuple((key, _frozen(item)) for key, item in sorted(value.items()))
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return value
