"""Rows of a report: a word in front, and a text that is wrapped beside or below it."""

from __future__ import annotations

import textwrap

from rankdbg.frontends.terminal import Terminal
from rankdbg.text.escapes import visible, visible_line

COLUMN = 10


def print_row(
    terminal: Terminal, title: str, text: str, column: int = COLUMN, *, commands: bool = False
) -> None:
    """`commands`: it has some, whose options are not parted at their hyphens."""
    lines = textwrap.wrap(
        visible(text),
        max(40, terminal.width - column),
        break_long_words=False,
        break_on_hyphens=not commands,
    )
    terminal.print(f"{title:{column}}{lines[0] if lines else ''}")
    for line in lines[1:]:
        terminal.print(" " * column + line)


def print_wrapped(terminal: Terminal, text: str) -> None:
    """A sentence of any length; what does not fit goes below it, indented."""
    width = max(40, terminal.width)
    for line in textwrap.wrap(
        visible_line(text),
        width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    ):
        terminal.print(line)
