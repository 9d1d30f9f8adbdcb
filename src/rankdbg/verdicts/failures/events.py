"""Findings that tell of one thing, at one place, are one event."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from rankdbg.logs.expressions import expression
from rankdbg.verdicts.failures.findings import Finding
from rankdbg.verdicts.rules.log_rules import ROLES, FailureRule

# What became of it. "fatal": nothing says that it was overcome.
Outcome = Literal["fatal", "recovered", "handled", "foreign"]
APART = 900.0  # seconds without such a line: what comes then is another event
APART_AT_END = 120.0  # a launcher that starts ranks again ends each attempt at once
_RETRIED = re.compile(
    r"(?i)\b(retrying|will (retry|be retried|try again)|retry loop|trying again|try again in"
    r"|(?:re)?tr(?:y|ies)[ #:]{1,2}(?P<try>\d+)(?: ?/ ?| of )(?!(?P=try)\b)\d+"
    r"|ignor(ed|ing)|falling back|fall back|continuing (without|anyway)|non-?fatal|skipping)\b"
)
_ATTEMPT = re.compile(r"/attempt_(\d+)/")


@dataclass(frozen=True)
class Event:
    rule: FailureRule
    findings: tuple[Finding, ...]  # in the order of their clocks
    ranks: tuple[int, ...]  # whom it is about
    host: str
    attempt: int | None = None  # of an elastic launcher
    outcome: Outcome = "fatal"
    why: str = ""  # how its outcome is known
    since: float | None = None  # a better bound than the last clock before its first line

    @property
    def mode(self) -> str:
        return self.rule.mode

    @property
    def first(self) -> Finding:
        return self.findings[0]

    @property
    def time(self) -> float | None:
        """Not before this."""
        return self.first.time if self.since is None else self.since

    @property
    def until(self) -> float | None:
        """Not after this; None: unknown."""
        return self.first.time if self.first.exact else self.first.until

    @property
    def last_time(self) -> float | None:
        return max((f.time for f in self.findings if f.time is not None), default=None)

    @property
    def comparable(self) -> bool:
        return self.first.comparable and (self.time is not None or self.until is not None)

    @cached_property
    def tier(self) -> int:
        """What can only be a consequence of what: the smaller can be the cause."""
        return min(ROLES.index(finding.rule.role) for finding in self.findings)

    @cached_property
    def is_retried(self) -> bool:
        """Whether each of its lines says that the program tries again, or goes on without it."""
        return all(_RETRIED.search(finding.text) for finding in self.findings)

    @cached_property
    def is_attempt(self) -> bool:
        """Whether its lines tell of nothing but attempts that are repeated."""
        if not self.rule.attempt:
            return False
        attempt = expression(self.rule.attempt, f"rule {self.mode}: attempt")
        return all(attempt.search(finding.text) for finding in self.findings)

    @cached_property
    def peers(self) -> set[str]:
        return {finding.peer for finding in self.findings if finding.peer}


def make_events(findings: Iterable[Finding]) -> list[Event]:
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        attempt = attempt_of(finding.path)
        key = finding.mode, *_place(finding), attempt, bool(finding.calm)
        groups.setdefault(key, []).append(finding)
    made = [
        Event(part[0].rule, tuple(part), _ranks(part), _host(part), attempt_of(part[0].path))
        for group in groups.values()
        for part in _parts(sorted(group, key=when))
    ]
    return sorted(made, key=lambda event: when(event.first))


def when(finding: Finding) -> tuple[float, float, str, int]:
    """By the clock; lines without one after those that have one, by when their files ended."""
    time = float("inf") if finding.time is None else finding.time
    return time, finding.modified, finding.path, finding.line


def _ranks(findings: Iterable[Finding]) -> tuple[int, ...]:
    return tuple(sorted({rank for finding in findings for rank in finding.ranks}))


def _place(finding: Finding) -> tuple[object, ...]:
    """What only follows from something is one event on a host, whoever noticed it there."""
    if finding.rule.role in ("consequence", "teardown"):
        return ("host", finding.host) if finding.host else ("file", finding.path)
    if finding.ranks:
        return ("ranks", finding.ranks)
    if finding.pid is not None:
        return ("pid", finding.host, finding.pid)
    return ("host", finding.host) if finding.host else ("file", finding.path)


def attempt_of(path: str) -> int | None:
    """Of an elastic launcher, which gives each a folder."""
    found = _ATTEMPT.search(path)
    return int(found[1]) if found else None


def _host(findings: Sequence[Finding]) -> str:
    return next((finding.host for finding in findings if finding.host), "")


def _parts(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Apart where the lines stop for a while."""
    parts: list[list[Finding]] = []
    for finding in findings:
        last = parts[-1][-1].time if parts else None
        apart = APART_AT_END if finding.rule.role == "teardown" else APART
        if parts and (finding.time is None or last is None or finding.time - last <= apart):
            parts[-1].append(finding)
        else:
            parts.append([finding])
    return parts
