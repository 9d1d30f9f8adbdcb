"""What changes in a job's logs, as it happens: phases, stalls, failures; the job and its nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rankdbg.errors import RankdbgError
from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis, failure_as_json, safe_line
from rankdbg.investigations.logs.log_sources import LogSource
from rankdbg.investigations.logs.rank_phases import phase_name
from rankdbg.selection import format_numbers
from rankdbg.verdicts.failures.log_changes import Change, Changes
from rankdbg.verdicts.rules.log_rules import LogRules

EVENTS = frozenset(["phase", "stall", "moves", "failure"])


@dataclass(frozen=True)
class LogEvent:
    """`kind`: that of the change; or `job`, `node` or `file`, with a text."""

    kind: str
    seen: float  # when it was noticed
    change: Change | None = None
    text: str = ""

    @property
    def when(self) -> datetime:
        known = self.change.time if self.change is not None else None
        return datetime.fromtimestamp(known if known is not None else self.seen)

    def as_json(self) -> dict[str, Any]:
        if self.change is None:
            return {
                "event": self.kind,
                "time": self.when.isoformat(timespec="seconds"),
                "text": self.text,
            }
        made = {"event": self.kind, "time": self.when.isoformat(timespec="milliseconds")}
        return {**made, **_change_json(self.change)}


def _change_json(change: Change) -> dict[str, Any]:
    if change.failure is not None:
        return {
            **failure_as_json(change.failure),
            "ranks": format_numbers(changed_ranks(change)),
            "node": change.findings[0].origin.address,
            "lines": [safe_line(finding.evidence) for finding in change.findings[:20]],
        }
    course = change.courses[0]
    ranks = [each.who.rank for each in change.courses if each.who.rank is not None]
    return {
        "ranks": format_numbers(ranks),
        "process": course.who.actor,
        "node": course.who.address,
        "stack": course.now.rule.stack,
        "phase": phase_name(course.now),
        "step": course.now.step,
        "silent_seconds": course.silent,
        "allowed_seconds": course.now.rule.quiet or None,
    }


def changed_ranks(change: Change) -> list[int]:
    return sorted({rank for finding in change.findings for rank in finding.ranks})


class FollowedJob:
    """`kinds`: of the changes that matter. `diagnosis`: after the last look; `ended`: whether the
    job has ended."""

    def __init__(self, source: LogSource, rules: LogRules, kinds: frozenset[str]) -> None:
        self._source = source
        self._rules = rules
        self._kinds = kinds
        self._changes = Changes()
        self._silent: dict[str, str] = {}
        self._unread: set[str] = set()
        self._was_running = False
        self.diagnosis: LogDiagnosis | None = None
        self.ended = False

    def look(self) -> Iterator[LogEvent]:
        """What has changed since the last look."""
        try:
            scans = self._source.scan()
        except RankdbgError as error:
            if self.diagnosis is None:
                raise
            # Nodes that are not reachable now may be later.
            yield from self._nodes({**self._silent, "": error.in_one_line()})
            return
        self.diagnosis = LogDiagnosis.of(scans, self._rules, self._source.state)
        for scan in scans:
            if scan.error and scan.path not in self._unread:  # each once
                self._unread.add(scan.path)
                yield _event("file", f"cannot read {scan.path}: {scan.error}")
        for change in self._changes.since_last(self.diagnosis.courses, self.diagnosis.diagnosis):
            if change.kind in self._kinds:
                yield LogEvent(change.kind, time.time(), change)
        yield from self._job()

    def _job(self) -> Iterator[LogEvent]:
        state = self._source.state
        if state is None:
            return
        yield from self._nodes(state.silent_nodes)
        self.ended = self._was_running and not state.running and not state.silent_nodes
        if state.running != self._was_running:
            self._was_running = state.running
            yield _event("job", f"{state.job} {'runs' if state.running else 'has ended'}")

    def _nodes(self, silent: Mapping[str, str]) -> Iterator[LogEvent]:
        for node in silent.keys() - self._silent.keys():
            yield _event("node", f"{node or 'the target'} does not respond: {silent[node]}")
        for node in self._silent.keys() - silent.keys():
            yield _event("node", f"{node or 'the target'} responds again")
        self._silent = dict(silent)


def _event(kind: str, text: str) -> LogEvent:
    return LogEvent(kind, time.time(), text=text)
