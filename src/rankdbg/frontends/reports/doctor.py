"""All that logs say of a job: what `rankdbg doctor` prints, and what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankdbg.frontends.log_sources import JobState
from rankdbg.frontends.reports.failures import FailureReport
from rankdbg.frontends.reports.health import HealthReport
from rankdbg.frontends.reports.job_state import JobStateReport
from rankdbg.frontends.reports.phases import PhaseReport
from rankdbg.frontends.terminal import Terminal
from rankdbg.logs.patterns import FileScan
from rankdbg.masking import mask_text
from rankdbg.verdicts.failures import diagnose
from rankdbg.verdicts.log_rules import LogRules
from rankdbg.verdicts.phases import alive_after, courses


class DoctorReport:
    def __init__(self, scans: Sequence[FileScan], rules: LogRules, state: JobState | None) -> None:
        self.courses = courses(scans, rules)
        self.diagnosis = diagnose(scans, rules, alive_after(scans, rules))
        self._state = None if state is None else JobStateReport(state)
        self._health = None if state is None else HealthReport(state.health, state.gpus)
        self._failures = FailureReport(self.diagnosis, scans)
        self._phases = PhaseReport(self.courses)

    def as_json(self) -> dict[str, Any]:
        state = {"cluster": self._state.as_json()} if self._state else {}
        health = {"nodes": self._health.as_json()} if self._health else {}
        return {**state, **health, **self._failures.as_json(), **self._phases.as_json()}

    def print(self, terminal: Terminal) -> None:
        if self._state:
            self._state.print(terminal)
        self._failures.print(terminal)
        self._phases.print_now(terminal)
        if self._health:
            self._health.print(terminal)
        self._failures.print_harmless(terminal)

    def evidence(self) -> list[str]:
        """Every line that shows a failure, by failure, the first cause first."""
        lines = []
        for failure in self.diagnosis.failures:
            lines.append(f"# {failure.mode} ({failure.role})")
            lines += [mask_text(finding.evidence) for finding in failure.findings]
        return lines
