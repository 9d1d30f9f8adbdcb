"""The answer of `rankdbg doctor` in at most 15 lines: what failed, why that, and what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rankdbg.frontends.reports.paths import near_path
from rankdbg.frontends.terminal import Terminal, cut, cut_path
from rankdbg.investigations.logs.log_diagnosis import (
    LogDiagnosis,
    failed_where,
    shown_line,
    trend_in_words,
)
from rankdbg.logs.prefixes import take_apart
from rankdbg.selection import format_numbers
from rankdbg.text.escapes import visible
from rankdbg.verdicts.failures.events import Event
from rankdbg.verdicts.failures.root_causes import Failure

_COLUMN = 14
_LINE_NUMBER = 10  # characters for it behind a path
_MOST_LINES = 15
_PLAIN = 30  # characters of a line that identify it
_MOST = {"explains": 2, "confidence": 2, "next": 0}  # lines; of others one


def print_cause(terminal: Terminal, diagnosis: LogDiagnosis) -> None:
    """Of a job that has failed."""
    root = diagnosis.failures[0]
    headline = visible(f"The job failed: {root.mode}{failed_where(root)}{when_text(root)}.")
    headlines = textwrap.wrap(headline, terminal.width)
    for line in headlines:
        terminal.print(line.replace(root.mode, terminal.red(root.mode), 1))
    terminal.print("")
    width = terminal.width - _COLUMN
    place = cut_path(near_path(root.first.path), width - _LINE_NUMBER)
    place += f":{root.first.line}" if root.first.line else ""
    rows = [
        _Row("cause", [cut(message_of(root.first.text), width), terminal.dim(place)]),
        _Row("", _wrapped(root.first.rule.cause, width), most=2),
        *(_Row(n, _wrapped(text, width), _MOST.get(n, 1)) for n, text in cause_texts(diagnosis)),
    ]
    # A blank line is above the rows, and below them how to see more.
    for row in _fitting(rows, width, _MOST_LINES - len(headlines) - 2):
        for number, line in enumerate(row.lines):
            terminal.print(f"  {row.title if number == 0 else '':{_COLUMN - 2}}{line}")


def cause_texts(diagnosis: LogDiagnosis) -> list[tuple[str, str]]:
    """What there is to say of a cause beside its line, by name; empty: nothing."""
    root, *others = diagnosis.failures
    follows = [f for f in others if f.role in ("consequence", "teardown")]
    return [
        ("checkpoints", _checkpoints(diagnosis)),
        ("values", _trends(diagnosis)),
        ("also", _also(others)),
        ("explains", "; ".join(map(_folded, follows))),
        ("next", root.first.rule.fix),
        ("confidence", _confidence(diagnosis)),
        ("not a cause", _dismissed(diagnosis.diagnosis.overcome)),
    ]


@dataclass(frozen=True)
class _Row:
    title: str
    lines: list[str]
    most: int = 0  # lines that it may have; 0: all


def _fitting(rows: Sequence[_Row], width: int, most: int) -> Iterator[_Row]:
    """Advice is shown whole: if it is long, the other rows have one line."""
    short = [_cut_row(row, row.most, width) for row in rows]
    if sum(len(row.lines) for row in short) > most:
        short = [_cut_row(row, min(row.most, 1), width) for row in rows]
    yield from short


def _cut_row(row: _Row, most: int, width: int) -> _Row:
    if not most or len(row.lines) <= most:
        return row
    last = cut(f"{row.lines[most - 1]} {row.lines[most]}", width)
    return replace(row, lines=[*row.lines[: most - 1], last])


def _also(others: Sequence[Failure]) -> str:
    """A second cause."""
    second = next((failure for failure in others if failure.role == "root"), None)
    if second is None:
        return ""
    return f"{second.mode}{failed_where(second)}: {shown_line(second.first.text)}"


def when_text(failure: Failure) -> str:
    """By the clock of most hosts; its zone, if the logs say it."""
    if failure.time is None:
        return ""
    moment = datetime.fromtimestamp(failure.time).astimezone()
    zone = moment.strftime("%Z") if failure.first.zoned else "(zone unknown)"
    return f", {moment:%Y-%m-%d %H:%M:%S} {zone}"


def _checkpoints(diagnosis: LogDiagnosis) -> str:
    """Which of them were saved after a loss became nan."""
    values = diagnosis.diagnosis.bad_values
    if values is None or (values.step is None and not values.poisoned):
        return ""
    since = "" if values.step is None else f"first bad step: {values.step}"
    numbers = cut(format_numbers(values.poisoned), 40)
    saved = f"do not resume from {numbers}" if values.poisoned else ""
    good = f"the last good one is {values.last_good}" if values.last_good is not None else ""
    return "; ".join(filter(None, (since, saved, good)))


def _trends(diagnosis: LogDiagnosis) -> str:
    return "; ".join(map(trend_in_words, diagnosis.diagnosis.trends))


def message_of(line: str) -> str:
    """Without what loggers and launchers put before it."""
    return shown_line(take_apart(line).text) or shown_line(line)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(visible(text), max(40, width), break_long_words=False)


def _folded(failure: Failure) -> str:
    """15 ranks: nccl_watchdog_timeout"""
    count = len(failure.ranks)
    if count > 1:
        return f"{failure.mode} on {count} ranks"
    return failure.mode + (f" on rank {failure.ranks[0]}" if count else "")


def _confidence(diagnosis: LogDiagnosis) -> str:
    found = diagnosis.diagnosis.confidence
    if found is None:
        return ""
    close = [f"next likely: {found.runner_up}"] if found.runner_up else []
    return "; ".join([found.level, *found.reasons, *close])


def _dismissed(events: list[Event]) -> str:
    """What looks like a cause and was overcome, or is not of this job."""
    told: dict[str, tuple[Event, set[int]]] = {}
    for event in events:
        if event.tier < 2 and not event.rule.weak:
            told.setdefault(event.mode, (event, set()))[1].update(event.ranks)
    parts = []
    for mode, (event, ranks) in told.items():
        where = f" on rank{'s' * (len(ranks) > 1)} {format_numbers(sorted(ranks))}" if ranks else ""
        where = where or (f" on {event.host}" if event.host else "")
        parts.append(f"{mode}{cut(where, _PLAIN)} ({event.outcome}: {event.why})")
    return "; ".join(visible(part) for part in parts)
