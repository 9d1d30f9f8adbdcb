"""Messages of logs and the differences between ranks, as text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rankdbg.frontends.terminal import Terminal, duration
from rankdbg.investigations.logs.merged_logs import CLOCK_WIDTH, clock
from rankdbg.investigations.logs.merged_messages import LogWriter, label
from rankdbg.logs.folding import Fold
from rankdbg.logs.kinds import MessageKind
from rankdbg.text.escapes import visible_line

_WIDEST_LABEL = 16
# Seconds between the first and the last who wrote the same, from which it is worth a word.
_SPREAD = 1.0


class FoldPrinter:
    """A column for the time, one for the ranks, and the text."""

    def __init__(self, terminal: Terminal, all_ranks: int, width: int = 0) -> None:
        self._terminal = terminal
        self._all_ranks = all_ranks
        self._width = width
        self._day = ""

    def print(self, folds: Sequence[Fold[LogWriter]]) -> None:
        labels = [visible_line(label(fold.who)) for fold in folds]
        widest = max([self._width, *(len(text) for text in labels)])
        self._width = min(_WIDEST_LABEL, widest)
        for fold, text in zip(folds, labels, strict=True):
            self._print_day(fold.first)
            self._print(fold, text)

    def _print_day(self, time: float | None) -> None:
        if time is None:
            return
        day = f"{datetime.fromtimestamp(time):%Y-%m-%d}"
        if day != self._day:
            self._terminal.print(self._terminal.dim(day))
            self._day = day

    def _print(self, fold: Fold[LogWriter], who: str) -> None:
        terminal = self._terminal
        first, *more = fold.text.split("\n")
        ranks = f"{who:{self._width}}"
        if len(fold.who) < self._all_ranks:
            ranks = terminal.bold(ranks)
        line = f"{clock(fold.first):{CLOCK_WIDTH}}  {ranks}  {first}"
        if fold.first is not None and fold.last is not None and fold.last - fold.first > _SPREAD:
            line += "  " + terminal.dim(f"(within {duration(fold.last - fold.first)})")
        terminal.print(line)
        for text in more:
            terminal.print(" " * (CLOCK_WIDTH + self._width + 4) + text)


def print_kinds(terminal: Terminal, kinds: Sequence[MessageKind[LogWriter]]) -> None:
    """Each with the first message of its kind."""
    labels = [visible_line(label(sorted(kind.who, key=_order))) for kind in kinds]
    width = min(_WIDEST_LABEL, max(map(len, labels), default=0))
    for kind, who in zip(kinds, labels, strict=True):
        first, *more = kind.text.split("\n")
        times = f"  {terminal.dim(f'× {kind.count}')}" if kind.count > len(kind.who) else ""
        terminal.print(
            f"{clock(kind.time):{CLOCK_WIDTH}}  {terminal.bold(f'{who:{width}}')}  {first}{times}"
        )
        for text in more:
            terminal.print(" " * (CLOCK_WIDTH + width + 4) + text)


def _order(who: LogWriter) -> tuple[bool, int, str]:
    return who.number is None, who.number or 0, who.name
