"""Logs to which more than one run has written: where the last run begins in each.

A shell that restarts a launcher, a job that Slurm has put back into its queue, and `>>` all append to
the files of the run before. What that run has died of explains nothing in the next one, which says
at its beginning that it begins. Elastic launchers start ranks again within one run: they say no such
thing themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.verdicts.failures.clocks import Clocks
from rankdbg.verdicts.failures.events import Event
from rankdbg.verdicts.failures.findings import Finding
from rankdbg.verdicts.failures.identities import Identities
from rankdbg.verdicts.rules.log_rules import LogRules

# Launchers of several hosts that write to one file begin within so many seconds, however soon one
# of them fails.
TOGETHER = 60.0


class RunsInLogs:
    def __init__(
        self, scans: Iterable[FileScan], rules: LogRules, identities: Identities, clocks: Clocks
    ) -> None:
        begins = {f"phase:{number}" for number, rule in enumerate(rules.phases) if rule.begins}
        self._identities = identities
        self._clocks = clocks
        self._begins: dict[str, list[Hit]] = {}
        for scan in scans:
            if found := [hit for hit in scan.hits if hit.pattern in begins]:
                self._begins[scan.path] = found

    def without_earlier(self, judged: Sequence[Event]) -> list[Event]:
        """Events of earlier runs are foreign where the last run has a failure of its own. One that has
        failed like the run before has had the same cause."""
        fatal = [event for event in judged if event.outcome == "fatal" and event.tier <= 1]
        earlier = {id(event) for event in judged if self._is_of_earlier(event)}
        before = {event.mode for event in fatal if id(event) in earlier}
        own = {event.mode for event in fatal if id(event) not in earlier and not event.rule.weak}
        if not own or own & before:
            return [*judged]
        return [
            replace(event, outcome="foreign", why="an earlier run in the same log")
            if id(event) in earlier and event.outcome == "fatal"
            else event
            for event in judged
        ]

    def _is_of_earlier(self, event: Event) -> bool:
        return all(map(self._stands_before, event.findings))

    def _stands_before(self, finding: Finding) -> bool:
        """Whether a run begins below it. In a file of many writers, only clocks tell that from another
        writer that begins late."""
        later = [h for h in self._begins.get(finding.path, ()) if h.offset > finding.offset]
        if not later:
            return False
        if self._identities.writers(finding.path) == 1:
            return True
        last = later[-1]
        begin = self._clocks.time(finding.path, last)
        if begin is None or finding.time is None or not self._clocks.is_exact(finding.path, last):
            return False
        return begin > finding.time + TOGETHER
