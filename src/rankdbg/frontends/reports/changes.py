"""What changes in a job's logs, as lines and as JSON: for `--follow`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rankdbg.frontends.reports.failures import failure_as_json, shown_line, whose
from rankdbg.frontends.reports.phases import phase_name, who_are
from rankdbg.frontends.reports.rows import print_row
from rankdbg.frontends.terminal import Terminal, cut, cut_path, duration
from rankdbg.masking import mask_text
from rankdbg.selection import format_numbers
from rankdbg.verdicts.log_changes import Change

_INDENT = 20
_WORDS = {"root": "failure", "consequence": "then", "teardown": "teardown"}


def print_change(terminal: Terminal, change: Change, now: float) -> None:
    when = datetime.fromtimestamp(change.time if change.time is not None else now)
    if change.failure is None:
        _print_line(terminal, when, change.kind, _of_courses(terminal, change))
        return
    first = change.findings[0]
    title = _WORDS[change.failure.role]
    text = f"{terminal.red(change.failure.mode)}{whose(_ranks(change), first.origin)}"
    _print_line(terminal, when, title, text)
    print_row(terminal, "", cut(shown_line(first.text), terminal.width - _INDENT), _INDENT)
    if change.failure.role == "root":
        place = f"{cut_path(first.path, terminal.width - _INDENT - 8)}:{first.line}"
        terminal.print(" " * _INDENT + terminal.dim(place))
        print_row(terminal, "", f"do: {first.rule.fix}", _INDENT)


def print_word(terminal: Terminal, title: str, text: str, now: float) -> None:
    """Something about the job or a node."""
    _print_line(terminal, datetime.fromtimestamp(now), title, text)


def change_as_json(change: Change, now: float) -> dict[str, Any]:
    when = datetime.fromtimestamp(change.time if change.time is not None else now)
    made: dict[str, Any] = {"event": change.kind, "time": when.isoformat(timespec="milliseconds")}
    if change.failure is not None:
        return {
            **made,
            **failure_as_json(change.failure),
            "ranks": format_numbers(_ranks(change)),
            "node": change.findings[0].origin.address,
            "lines": [mask_text(finding.evidence) for finding in change.findings[:20]],
        }
    course = change.courses[0]
    ranks = [each.who.rank for each in change.courses if each.who.rank is not None]
    return {
        **made,
        "ranks": format_numbers(ranks),
        "process": course.who.actor,
        "node": course.who.address,
        "stack": course.now.rule.stack,
        "phase": phase_name(course.now),
        "step": course.now.step,
        "silent_seconds": course.silent,
        "allowed_seconds": course.now.rule.quiet or None,
    }


def _ranks(change: Change) -> list[int]:
    return sorted({rank for finding in change.findings for rank in finding.ranks})


def _of_courses(terminal: Terminal, change: Change) -> str:
    course = change.courses[0]
    rule = course.now.rule
    text = f"{terminal.bold(who_are(change.courses))}: {rule.stack}, {phase_name(course.now)}"
    if change.kind == "stall":
        silent = duration(course.silent or 0.0)
        text += f", silent for {silent}, longer than the {duration(rule.quiet)} of this phase"
        return terminal.red(text) + (f" ({rule.note})" if rule.note else "")
    return text + (", writes again" if change.kind == "moves" else "")


def _print_line(terminal: Terminal, when: datetime, title: str, text: str) -> None:
    print_row(terminal, f"{when:%H:%M:%S}  {title}", text, _INDENT)
