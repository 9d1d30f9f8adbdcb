"""Follows logs and reports changes, until Ctrl-C or the end of the job."""

from __future__ import annotations

import json
import signal
import sys
import threading

from rankdbg.frontends.reports.changes import print_event
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
from rankdbg.investigations.logs.log_events import FollowedJob, LogEvent
from rankdbg.investigations.logs.log_sources import LogSource
from rankdbg.verdicts.rules.log_rules import LogRules

PAUSE = 1.0  # between two looks


def follow(
    source: LogSource, rules: LogRules, as_json: bool, kinds: frozenset[str]
) -> LogDiagnosis:
    """Reports these kinds of changes; returns the result at the end."""
    job = FollowedJob(source, rules, kinds)
    terminal = Terminal()
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    while True:
        for event in job.look():
            _tell(terminal, event, as_json)
        if job.ended or over.wait(PAUSE):
            break
    assert job.diagnosis is not None
    return job.diagnosis


def _tell(terminal: Terminal, event: LogEvent, as_json: bool) -> None:
    if event.kind == "file":
        sys.stderr.write(f"{event.text}\n")
        return
    if as_json:
        document = {"schema": "rankdbg.log-event/1", **event.as_json()}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        print_event(terminal, event)
    sys.stdout.flush()
