"""What changes in a job's logs, as lines and as JSON: for `--follow`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rankdbg.frontends.reports.failures import failure_as_json, shown_line, where
from rankdbg.frontends.reports.phases import phase_name, who_are
from rankdbg.frontends.terminal import Terminal, cut, cut_path, duration
from rankdbg.masking import mask_text
from rankdbg.selection import format_numbers
from rankdbg.verdicts.findings import Finding
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
    text = f"{terminal.red(change.failure.mode)}{_whose(change.findings)}"
    _print_line(terminal, when, title, text)
    _print_more(terminal, cut(shown_line(first.text), terminal.width - _INDENT))
    if change.failure.role == "root":
        place = f"{cut_path(first.path, terminal.width - _INDENT - 8)}:{first.line}"
        _print_more(terminal, terminal.dim(place), wrap=False)
        _print_more(terminal, f"do: {first.rule.fix}")


def print_word(terminal: Terminal, title: str, text: str, now: float) -> None:
    """Something about the job or a node."""
    _print_line(terminal, datetime.fromtimestamp(now), title, text)


def change_as_json(change: Change, now: float) -> dict[str, Any]:
    when = datetime.fromtimestamp(change.time if change.time is not None else now)
    made: dict[str, Any] = {"event": change.kind, "time": when.isoformat(timespec="milliseconds")}
    if change.failure is not None:
        ranks = sorted({rank for finding in change.findings for rank in finding.ranks})
        first = change.findings[0]
        return {
            **made,
            **failure_as_json(change.failure),
            "ranks": format_numbers(ranks),
            "node": first.origin.address,
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


def _of_courses(terminal: Terminal, change: Change) -> str:
    course = change.courses[0]
    rule = course.now.rule
    text = f"{terminal.bold(who_are(change.courses))}: {rule.stack}, {phase_name(course.now)}"
    if change.kind == "stall":
        silent = duration(course.silent or 0.0)
        text += f", silent for {silent}, longer than the {duration(rule.quiet)} of this phase"
        return terminal.red(text) + (f" ({rule.note})" if rule.note else "")
    return text + (", writes again" if change.kind == "moves" else "")


def _whose(findings: Sequence[Finding]) -> str:
    ranks = sorted({rank for finding in findings for rank in finding.ranks})
    if ranks:
        several = "s" if len(ranks) > 1 else ""
        return f" on rank{several} {cut(format_numbers(ranks), 40)}{where(findings[0].origin)}"
    origin = findings[0].origin
    return f" in {origin.actor or 'a process'}{where(origin)}" if origin.pid is not None else ""


def _print_line(terminal: Terminal, when: datetime, title: str, text: str) -> None:
    lines = _wrapped(terminal, text)
    terminal.print(f"{when:%H:%M:%S}  {title:10}{lines[0]}")
    for line in lines[1:]:
        terminal.print(" " * _INDENT + line)


def _print_more(terminal: Terminal, text: str, wrap: bool = True) -> None:
    for line in _wrapped(terminal, text) if wrap else [text]:
        terminal.print(" " * _INDENT + line)


def _wrapped(terminal: Terminal, text: str) -> list[str]:
    width = max(40, terminal.width - _INDENT)
    return textwrap.wrap(text, width, break_long_words=False) or [""]
