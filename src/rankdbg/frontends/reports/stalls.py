"""A job in which nothing has failed, and that makes no progress, as text."""

from __future__ import annotations

import textwrap

from rankdbg.frontends.reports.paths import near_path
from rankdbg.frontends.terminal import Terminal, cut, cut_path
from rankdbg.investigations.logs.log_diagnosis import shown_line, stall_in_words
from rankdbg.investigations.logs.rank_phases import RankPhases, phase_text, when_text, who_are
from rankdbg.logs.prefixes import take_apart
from rankdbg.text.amounts import duration
from rankdbg.text.escapes import visible
from rankdbg.verdicts.failures.stalls import Stall

_COLUMN = 14


def print_stall(terminal: Terminal, stall: Stall) -> None:
    """Who holds the job up, where, and what to do."""
    worst = stall.worst
    width = terminal.width - _COLUMN
    headline = visible(f"Nothing has failed, but {stall_in_words(stall)}.")
    for line in textwrap.wrap(headline, terminal.width):
        terminal.print(terminal.red(line))
    terminal.print("")
    line = take_apart(worst.now.line).text or worst.now.line
    allowed = duration(worst.now.rule.quiet)
    waiting = "; ".join(who_are(members) for members in RankPhases(stall.waiting).members())
    rows = [
        ("phase", f"{phase_text(worst)}{when_text(worst.now)}; allowed without output: {allowed}"),
        ("", worst.now.rule.note),
        ("waiting", cut(waiting, 2 * width)),
        ("next", _next(stall)),
    ]
    _print(
        terminal,
        "line",
        [cut(shown_line(line), width), cut_path(near_path(worst.path), width)],
    )
    for title, text in rows:
        if text:
            _print(terminal, title, textwrap.wrap(visible(text), width))


def _next(stall: Stall) -> str:
    if stall.of_job:
        return "If it still runs: rankdbg why -t TARGET says which rank holds up the others."
    worst = stall.worst
    pid = f"pid {worst.who.pid}" if worst.who.pid is not None else "its process"
    where = f" on {worst.host}" if worst.host else ""
    return f"If it still runs: rankdbg why -t TARGET, or py-spy dump of {pid}{where}."


def _print(terminal: Terminal, title: str, lines: list[str]) -> None:
    for number, line in enumerate(lines):
        terminal.print(f"  {title if number == 0 else '':{_COLUMN - 2}}{line}")
