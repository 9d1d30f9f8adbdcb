"""What changes in a job's logs, as lines: for `--follow`."""

from __future__ import annotations

from datetime import datetime

from rankdbg.frontends.reports.rows import print_row
from rankdbg.frontends.terminal import Terminal, cut, cut_path, duration
from rankdbg.investigations.logs.log_diagnosis import shown_line, whose
from rankdbg.investigations.logs.log_events import LogEvent, changed_ranks
from rankdbg.investigations.logs.rank_phases import phase_name, who_are
from rankdbg.verdicts.failures.log_changes import Change

_INDENT = 20
_WORDS = {"root": "failure", "consequence": "then", "teardown": "teardown", "other": "beside"}


def print_event(terminal: Terminal, event: LogEvent) -> None:
    change = event.change
    if change is None or change.failure is None:
        text = event.text if change is None else _of_courses(terminal, change)
        _print_line(terminal, event.when, event.kind, text)
        return
    first = change.findings[0]
    title = _WORDS[change.failure.role]
    text = f"{terminal.red(change.failure.mode)}{whose(changed_ranks(change), first.origin)}"
    _print_line(terminal, event.when, title, text)
    print_row(terminal, "", cut(shown_line(first.text), terminal.width - _INDENT), _INDENT)
    if change.failure.role == "root":
        place = f"{cut_path(first.path, terminal.width - _INDENT - 8)}:{first.line}"
        terminal.print(" " * _INDENT + terminal.dim(place))
        print_row(terminal, "", f"next: {first.rule.fix}", _INDENT)


def _of_courses(terminal: Terminal, change: Change) -> str:
    course = change.courses[0]
    rule = course.now.rule
    text = f"{terminal.bold(who_are(change.courses))}: {rule.stack}, {phase_name(course.now)}"
    if change.kind == "stall":
        silent = duration(course.silent or 0.0)
        text += f", no output for {silent}, longer than the {duration(rule.quiet)} of this phase"
        return terminal.red(text) + (f" ({rule.note})" if rule.note else "")
    return text + (", writes again" if change.kind == "moves" else "")


def _print_line(terminal: Terminal, when: datetime, title: str, text: str) -> None:
    print_row(terminal, f"{when:%H:%M:%S}  {title}", text, _INDENT)
