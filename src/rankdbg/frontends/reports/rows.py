"""Rows of a report: a word in front, and a text that is wrapped beside it."""

from __future__ import annotations

import textwrap

from rankdbg.frontends.terminal import Terminal

COLUMN = 10


def print_row(terminal: Terminal, title: str, text: str, column: int = COLUMN) -> None:
    lines = textwrap.wrap(text, max(40, terminal.width - column), break_long_words=False) or [""]
    terminal.print(f"{title:{column}}{lines[0]}")
    for line in lines[1:]:
        terminal.print(" " * column + line)
