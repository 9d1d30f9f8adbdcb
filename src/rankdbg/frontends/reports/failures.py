"""What failed, as text."""

from __future__ import annotations

from datetime import datetime

from rankdbg.frontends.reports.paths import near_path
from rankdbg.frontends.reports.rows import COLUMN, print_row
from rankdbg.frontends.terminal import Terminal, cut, cut_path
from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis, failed_where, shown_line, whose
from rankdbg.text.amounts import counted
from rankdbg.verdicts.failures.root_causes import Failure

_LINES_SHOWN = 3
_LINE_NUMBER = 10  # characters for it behind a path


def print_failures(terminal: Terminal, diagnosis: LogDiagnosis) -> None:
    size = sum(scan.size for scan in diagnosis.scans)
    count = len(diagnosis.scans)
    files = f"{counted(count, 'file')}, {size / 1e6:.1f} MB"
    print_row(terminal, "read", files)
    if not diagnosis.failures:
        print_row(terminal, "failures", "none that a rule knows")
        return
    titles = {"root": "also", "consequence": "then", "teardown": "teardown", "other": "beside"}
    for number, failure in enumerate(diagnosis.failures):
        if number == 0:
            _print_cause(terminal, "first", failure)
        elif failure.role == "root":
            _print_cause(terminal, titles[failure.role], failure)
        else:
            lines = len(failure.findings)
            more = f"{lines} lines" if lines > 1 else cut(shown_line(failure.first.text), 60)
            print_row(
                terminal, titles[failure.role], f"{failure.mode}{failed_where(failure)}: {more}"
            )


def print_harmless(terminal: Terminal, diagnosis: LogDiagnosis) -> None:
    for line in diagnosis.diagnosis.harmless:
        text = cut(shown_line(line.line), terminal.width - COLUMN - 8)
        print_row(terminal, "harmless", f"{text} × {line.count}" if line.count > 1 else text)


def print_overcome(terminal: Terminal, diagnosis: LogDiagnosis) -> None:
    """What is no cause, and why not."""
    for event in diagnosis.diagnosis.overcome:
        where = whose(event.ranks, event.first.origin)
        print_row(terminal, event.outcome, f"{event.mode}{where}: {shown_line(event.why)}", 12)


def _print_cause(terminal: Terminal, title: str, failure: Failure) -> None:
    when = "" if failure.time is None else f"{datetime.fromtimestamp(failure.time):%H:%M:%S}  "
    head = f"{when}{terminal.red(failure.mode)}{failed_where(failure)}"
    print_row(terminal, title, head)
    for finding in failure.findings[:_LINES_SHOWN]:
        path = cut_path(near_path(finding.path), terminal.width - COLUMN - _LINE_NUMBER)
        place = path + (f":{finding.line}" if finding.line else "")
        terminal.print(" " * COLUMN + terminal.dim(place))
        shown = cut(shown_line(finding.text), terminal.width - COLUMN - 2)
        terminal.print(" " * (COLUMN + 2) + shown)
    if len(failure.findings) > _LINES_SHOWN:
        terminal.print(" " * COLUMN + f"and {len(failure.findings) - _LINES_SHOWN} more")
    print_row(terminal, "  cause", failure.first.rule.cause)
    print_row(terminal, "  next", failure.first.rule.fix)
