"""Keeps reading logs, and says what changes, until the user has seen enough or the job ends."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from rankdbg.errors import RankdbgError
from rankdbg.frontends.log_sources import Source
from rankdbg.frontends.reports.changes import change_as_json, print_change, print_word
from rankdbg.frontends.reports.doctor import DoctorReport
from rankdbg.frontends.terminal import Terminal
from rankdbg.logs.patterns import FileScan
from rankdbg.verdicts.log_changes import Change, Changes
from rankdbg.verdicts.log_rules import LogRules

PAUSE = 1.0  # between two looks
EVENTS = frozenset(["phase", "stall", "moves", "failure"])


def follow(source: Source, rules: LogRules, as_json: bool, kinds: frozenset[str]) -> DoctorReport:
    """Tells these kinds of changes; returns what there is at the end."""
    follower = _Follower(source, rules, as_json, kinds)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    while not follower.look() and not over.wait(PAUSE):
        pass
    assert follower.report is not None
    return follower.report


class _Follower:
    def __init__(
        self, source: Source, rules: LogRules, as_json: bool, kinds: frozenset[str]
    ) -> None:
        self._source = source
        self._rules = rules
        self._json = as_json
        self._kinds = kinds
        self._terminal = Terminal()
        self._changes = Changes()
        self._silent: dict[str, str] = {}
        self._unread: set[str] = set()
        self._was_running = False
        self.report: DoctorReport | None = None

    def look(self) -> bool:
        """One look. True if the job has ended."""
        try:
            self._source.read()
        except RankdbgError as error:
            if self.report is None:
                raise
            # What cannot be reached now may be there again later.
            self._tell_nodes({**self._silent, "": error.in_one_line()})
            return False
        scans = self._source.scans()
        self.report = DoctorReport(scans, self._rules, self._source.state)
        self._tell_unread(scans)
        for change in self._changes.since_last(self.report.courses, self.report.diagnosis):
            if change.kind in self._kinds:
                self._tell(change)
        return self._tell_state()

    def _tell(self, change: Change) -> None:
        if self._json:
            self._write(change_as_json(change, time.time()))
        else:
            print_change(self._terminal, change, time.time())
            sys.stdout.flush()

    def _tell_unread(self, scans: Sequence[FileScan]) -> None:
        """Each file once, on stderr."""
        for scan in scans:
            if scan.error and scan.path not in self._unread:
                self._unread.add(scan.path)
                sys.stderr.write(f"cannot read {scan.path}: {scan.error}\n")

    def _tell_state(self) -> bool:
        state = self._source.state
        if state is None:
            return False
        self._tell_nodes(state.silent_nodes)
        ended = self._was_running and not state.running and not state.silent_nodes
        if state.running != self._was_running:
            self._was_running = state.running
            self._say("job", f"{state.job} {'runs' if state.running else 'has ended'}")
        return ended

    def _tell_nodes(self, silent: dict[str, str]) -> None:
        for node in silent.keys() - self._silent.keys():
            self._say("node", f"{node or 'the target'} does not answer: {silent[node]}")
        for node in self._silent.keys() - silent.keys():
            self._say("node", f"{node or 'the target'} answers again")
        self._silent = dict(silent)

    def _say(self, kind: str, text: str) -> None:
        if self._json:
            moment = time.strftime("%Y-%m-%dT%H:%M:%S")
            self._write({"event": kind, "time": moment, "text": text})
        else:
            print_word(self._terminal, kind, text, time.time())
            sys.stdout.flush()

    def _write(self, event: dict[str, Any]) -> None:
        document = {"schema": "rankdbg.log-event/1", **event}
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()
