"""What ranks say about breaks, as text."""

from __future__ import annotations

from typing import Any

from rankdbg.frontends.reports.ranks import print_silent
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.rank_labels import label
from rankdbg.investigations.stops.break_answers import BreakAnswers


def print_breaks(terminal: Terminal, answers: BreakAnswers[Any]) -> None:
    for text, members in answers.groups():
        terminal.print(f"{terminal.bold(label(members, answers.all_ranks))}  {text}")
    print_silent(terminal, answers.no_response, answers.all_ranks)
