"""The verdict on a job as text: ten lines for people."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.hangs.job_verdicts import JobVerdict, row_text
from rankdbg.investigations.rank_labels import label
from rankdbg.text.escapes import visible
from rankdbg.verdicts.hangs.accusations import Accusation

MOST_ROWS = 8


def print_verdict(terminal: Terminal, found: JobVerdict) -> None:
    for line in textwrap.wrap(visible(found.headline()), terminal.width, break_on_hyphens=False):
        terminal.print(terminal.bold(line))
    if not found.first:
        _print_rows(terminal, found)
        _print_paragraph(terminal, found.absent_text())
        _print_paragraph(terminal, found.awaited_text())
    for finding in found.verdict.findings:
        terminal.print()
        _print_finding(terminal, found, finding)
    for note in found.notes:
        terminal.print(terminal.dim(visible(note)))


def _print_finding(terminal: Terminal, found: JobVerdict, finding: Accusation) -> None:
    _row(terminal, "culprit", found.culprit_text(finding), terminal.red)
    _row(terminal, "cause", f"{finding.says} [{finding.cause}]")
    _row(terminal, "", finding.why, terminal.dim)
    if finding is found.first:
        _row(terminal, "waiting", found.waiting_text(finding))
        _row(terminal, "chain", found.chain_text())
    _row(terminal, "next", finding.next)
    if finding is found.first:
        _row(terminal, "confidence", found.verdict.confidence)
        for proof in found.proofs(finding):
            _print_item(terminal, proof)


def _row(terminal: Terminal, name: str, text: str, style: Callable[[str], str] = str) -> None:
    lines = textwrap.wrap(visible(text), terminal.width - 15, break_on_hyphens=False)
    for number, line in enumerate(lines):
        terminal.print(f"  {name if number == 0 else '':10}  {style(line)}")


def _print_rows(terminal: Terminal, found: JobVerdict) -> None:
    rows = found.rows()
    labels = [label([sign.seen.rank for sign in same], found.all_ranks) for same in rows]
    width = min(30, max((len(found.numbers(same)) for same in rows[:MOST_ROWS]), default=0))
    for same, ranks in [*zip(rows, labels, strict=True)][:MOST_ROWS]:
        text = row_text(same)
        room = terminal.width - width - 4
        lines = textwrap.wrap(visible(text), room, break_on_hyphens=False)
        for number, line in enumerate(lines):
            name = ranks if number == 0 else ""
            terminal.print(f"  {terminal.bold(f'{name:{width}}')}  {line}")
    if len(rows) > MOST_ROWS:
        terminal.print(terminal.dim(f"  and {len(rows) - MOST_ROWS} more groups, see --json"))


def _print_paragraph(terminal: Terminal, text: str) -> None:
    for line in textwrap.wrap(visible(text), terminal.width - 4, break_on_hyphens=False):
        terminal.print(f"  {line}")


def _print_item(terminal: Terminal, text: str) -> None:
    lines = textwrap.wrap(visible(text), terminal.width - 7, break_on_hyphens=False)
    for number, line in enumerate(lines):
        terminal.print(f"    {'-' if number == 0 else ' '} {line}")
