"""The answers of many ranks as text: equal answers once, the odd last."""

from __future__ import annotations

from rankdbg.frontends.reports.ranks import marked, print_silent
from rankdbg.frontends.terminal import Terminal, cut
from rankdbg.investigations.answers import Answers, shown_value
from rankdbg.investigations.rank_labels import label

MOST_ROWS = 16


def print_answers(terminal: Terminal, answers: Answers, *, every_value: bool = False) -> None:
    """The majority first, the odd ones last and marked."""
    if not terminal.shows_secrets:
        answers = answers.masked()
    rows = list(zip(answers.groups, answers.odd, strict=True))
    rows.sort(key=lambda row: row[1])
    left_out = 0 if every_value else max(0, len(rows) - MOST_ROWS)
    if left_out:
        # Of many different values the ordinary ones are left out, not the odd.
        rows = rows[: max(3, MOST_ROWS - sum(answers.odd))] + [row for row in rows if row[1]]
        left_out = len(answers.groups) - len(rows)
    labels = [label(members, answers.all_ranks) for (_, members), _ in rows]
    width = max((len(text) for text in labels), default=0)
    for ((value, _), is_odd), text in zip(rows, labels, strict=True):
        shown = cut(shown_value(value), max(20, terminal.width - width - 22))
        line = f"{terminal.bold(f'{text:{width}}')}  {shown}"
        terminal.print(marked(terminal, line, "odd one out" if is_odd else ""))
    if left_out > 0:
        terminal.print(terminal.dim(f"and {left_out} more different values; --values shows them"))
    if spread := answers.spread_line():
        terminal.print(terminal.dim(spread))
    print_silent(terminal, answers.no_response, answers.all_ranks)
