"""What failed, as text and as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rankdbg.frontends.reports.rows import COLUMN, print_row
from rankdbg.frontends.terminal import Terminal, cut, cut_path
from rankdbg.logs.patterns import FileScan
from rankdbg.masking import mask_text
from rankdbg.selection import format_numbers
from rankdbg.verdicts.failures import Diagnosis, Failure
from rankdbg.verdicts.log_lines import Origin

_LINES_SHOWN = 3


class FailureReport:
    def __init__(self, diagnosis: Diagnosis, scans: Sequence[FileScan]) -> None:
        self._failures = diagnosis.failures
        self._harmless = diagnosis.harmless
        self._scans = scans

    def as_json(self) -> dict[str, Any]:
        return {
            "failures": [failure_as_json(failure) for failure in self._failures],
            "harmless": [
                {"mode": h.mode, "count": h.count, "line": mask_text(h.line), "cause": h.cause}
                for h in self._harmless
            ],
            "files": [
                {
                    "path": scan.path,
                    "bytes": scan.size,
                    "error": scan.error,
                    "kind": scan.file.kind if scan.file else "given",
                    "ranks": format_numbers(scan.file.ranks) if scan.file else "",
                }
                for scan in self._scans
            ],
        }

    def print(self, terminal: Terminal) -> None:
        size = sum(scan.size for scan in self._scans)
        count = len(self._scans)
        files = f"{count} file{'s' if count != 1 else ''}, {size / 1e6:.1f} MB"
        print_row(terminal, "read", files)
        if not self._failures:
            print_row(terminal, "failures", "none that a rule knows")
            return
        titles = {"root": "also", "consequence": "then", "teardown": "teardown"}
        for number, failure in enumerate(self._failures):
            if number == 0:
                self._print_cause(terminal, "first", failure)
            elif failure.role == "root":
                self._print_cause(terminal, titles[failure.role], failure)
            else:
                lines = len(failure.findings)
                more = f"{lines} lines" if lines > 1 else cut(shown_line(failure.first.text), 60)
                print_row(terminal, titles[failure.role], f"{failure.mode}{_who(failure)}: {more}")

    def print_harmless(self, terminal: Terminal) -> None:
        for line in self._harmless:
            text = cut(shown_line(line.line), terminal.width - COLUMN - 8)
            print_row(terminal, "harmless", f"{text} × {line.count}" if line.count > 1 else text)

    def _print_cause(self, terminal: Terminal, title: str, failure: Failure) -> None:
        when = "" if failure.time is None else f"{datetime.fromtimestamp(failure.time):%H:%M:%S}  "
        head = f"{when}{terminal.red(failure.mode)}{_who(failure)}"
        print_row(terminal, title, head)
        for finding in failure.findings[:_LINES_SHOWN]:
            place = f"{cut_path(_short(finding.path), 40)}:{finding.line}"
            terminal.print(" " * COLUMN + terminal.dim(place))
            shown = cut(shown_line(finding.text), terminal.width - COLUMN - 2)
            terminal.print(" " * (COLUMN + 2) + shown)
        if len(failure.findings) > _LINES_SHOWN:
            terminal.print(" " * COLUMN + f"and {len(failure.findings) - _LINES_SHOWN} more")
        print_row(terminal, "  cause", failure.first.rule.cause)
        print_row(terminal, "  do", failure.first.rule.fix)


def failure_as_json(failure: Failure) -> dict[str, Any]:
    return {
        "mode": failure.mode,
        "kind": failure.first.rule.kind,
        "role": failure.role,
        "ranks": format_numbers(failure.ranks),
        "first": {
            "ranks": format_numbers(failure.first.ranks),
            "file": failure.first.path,
            "line": failure.first.line,
            "process": failure.first.origin.actor,
            "pid": failure.first.origin.pid,
            "address": failure.first.origin.address,
            "time": None if failure.time is None else _iso(failure.time),
        },
        "count": len(failure.findings),
        "lines": [mask_text(line) for line in failure.lines],
        "cause": failure.first.rule.cause,
        "fix": failure.first.rule.fix,
        "links": list(failure.first.rule.links),
    }


def _iso(time: float) -> str:
    return datetime.fromtimestamp(time).isoformat(timespec="milliseconds")


def _who(failure: Failure) -> str:
    """The one that came first is named if there are several."""
    first = failure.first
    return whose(failure.ranks, first.origin, first.ranks)


def whose(ranks: Sequence[int], origin: Origin, first: Sequence[int] = ()) -> str:
    """On which ranks, or in which process."""
    if not ranks:
        return (
            f" in {origin.actor or 'a process'}{_where(origin)}" if origin.pid is not None else ""
        )
    several = len(ranks) > 1
    text = f" on rank{'s' if several else ''} {cut(format_numbers(ranks), 40)}"
    if several and len(first) == 1:
        text += f" (rank {first[0]} first)"
    return text + _where(origin)


def _where(origin: Origin) -> str:
    """The process and the node, as far as they are known."""
    known = [origin.actor] if origin.actor and origin.rank is not None else []
    known += [f"pid {origin.pid}"] if origin.pid is not None else []
    known += [origin.address] if origin.address else []
    return f" ({', '.join(known)})" if known else ""


def shown_line(text: str) -> str:
    return mask_text(" ".join(text.split()))


def _short(path: str) -> str:
    near = os.path.relpath(path)
    return path if near.startswith("..") else near
