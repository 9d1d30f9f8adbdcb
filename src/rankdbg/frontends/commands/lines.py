"""The interface of a source of command lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

Completer = Callable[[str], Iterable[str]]
Report = Callable[[], None]  # prints


class InputLines(Protocol):
    """An iterator of lines, that can also ask for one with another prompt."""

    interactive: bool
    complete: Completer

    def __iter__(self) -> Iterator[str]: ...

    def ask(self, prompt: str) -> str | None:
        """One line, or None where there is none any more."""

    def show_late(self, report: Report) -> None:
        """From any thread: print a report between two commands, not among the lines of one."""
