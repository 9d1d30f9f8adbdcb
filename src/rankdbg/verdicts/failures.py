"""What failed first, what is only a consequence of it, and what is the job being taken down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rankdbg.logs.patterns import FileScan
from rankdbg.verdicts.findings import PYTHON_ERROR, Finding, Findings
from rankdbg.verdicts.log_lines import Origins
from rankdbg.verdicts.log_rules import ROLES, LogRules

Part = Literal["root", "consequence", "teardown"]
# How much earlier than every cause a symptom must be to be no symptom of them: ranks notice
# within seconds that another has gone, and clocks of nodes differ.
_EARLIER = {"death": 2.0, "consequence": 30.0, "teardown": 2.0}
_LINES = 20


@dataclass(frozen=True)
class Failure:
    """One mode, wherever it showed."""

    mode: str
    role: Part
    ranks: tuple[int, ...]
    first: Finding
    findings: tuple[Finding, ...]
    time: float | None

    @property
    def lines(self) -> list[str]:
        """Evidence: the first line of each rank, then what stood beside these."""
        seen: dict[tuple[str, tuple[int, ...]], str] = {}
        for finding in self.findings:
            seen.setdefault((finding.path, finding.ranks), finding.evidence)
        beside = [line for finding in self.findings for line in finding.beside]
        return list(dict.fromkeys([*seen.values(), *beside]))[:_LINES]


@dataclass(frozen=True)
class HarmlessLine:
    mode: str
    count: int
    line: str
    cause: str


@dataclass(frozen=True)
class Diagnosis:
    failures: tuple[Failure, ...]  # the first cause first
    harmless: tuple[HarmlessLine, ...]


def diagnose(
    scans: Sequence[FileScan], rules: LogRules, alive_after: dict[str, float] | None = None
) -> Diagnosis:
    """`alive_after`: for each file, the last time at which it told of progress."""
    found = Findings(scans, rules, Origins(scans))
    failures = _by_mode(found.failures)
    failures = _with_roles(failures, alive_after or {})
    harmless: dict[str, HarmlessLine] = {}
    for calm in found.harmless:
        count = harmless[calm.mode].count if calm.mode in harmless else 0
        line = harmless[calm.mode].line if calm.mode in harmless else calm.text
        harmless[calm.mode] = HarmlessLine(calm.mode, count + 1, line, calm.cause)
    strong = [failure for failure in failures if not failure.first.rule.weak]
    if strong:
        for failure in failures:
            if failure.first.rule.weak:
                harmless[failure.mode] = HarmlessLine(
                    failure.mode,
                    len(failure.findings),
                    failure.first.text,
                    failure.first.rule.cause,
                )
    return Diagnosis(tuple(strong or failures), tuple(harmless.values()))


def _by_mode(findings: Sequence[Finding]) -> list[Failure]:
    modes: dict[str, list[Finding]] = {}
    for finding in findings:
        modes.setdefault(finding.mode, []).append(finding)
    loud = [mode for mode, group in modes.items() if not group[0].rule.quiet]
    made = []
    for mode in loud or modes:
        group = sorted(modes[mode], key=_when)
        ranks = tuple(sorted({rank for finding in group for rank in finding.ranks}))
        made.append(Failure(mode, "root", ranks, group[0], tuple(group), group[0].time))
    return made


def _when(finding: Finding) -> tuple[float, float, str, int]:
    """By the clock; lines without one after those that have one, by when their files ended."""
    time = float("inf") if finding.time is None else finding.time
    return time, finding.modified, finding.path, finding.line


def _tier(failure: Failure) -> int:
    """What can only be a consequence of what: the smaller can be the cause."""
    return min(ROLES.index(finding.rule.role) for finding in failure.findings)


def _with_roles(failures: list[Failure], alive_after: dict[str, float]) -> list[Failure]:
    marked = [replace(failure, role=_part(failure, failures)) for failure in failures]

    def order(failure: Failure) -> tuple[object, ...]:
        part = ("root", "consequence", "teardown").index(failure.role)
        first = failure.first
        # A rank that went on working after a line did not die of it.
        survived = first.time is not None and alive_after.get(first.path, 0) > first.time + 60
        return part, survived, failure.mode == PYTHON_ERROR and survived, *_when(first)

    return sorted(marked, key=order)


def _part(failure: Failure, failures: Sequence[Failure]) -> Part:
    tier = _tier(failure)
    role = ROLES[tier]
    others = [other for other in failures if other is not failure and not other.first.rule.weak]
    if failure.mode == PYTHON_ERROR and tier == 0:
        # An error that no rule knows, beside one that a rule knows, is what it left behind.
        causes, slack = [other for other in others if _tier(other) <= 1], 0.0
    else:
        causes, slack = [other for other in others if _tier(other) < tier], _EARLIER.get(role, 0.0)
    before = [other for other in others if other.mode in failure.first.rule.follows]
    if causes and not _came_first(failure, causes, slack):
        return "teardown" if role == "teardown" else "consequence"
    # A symptom comes of any other end of a process that was there before: of a SIGTERM, too.
    if tier and any(_came_first(other, [failure], _EARLIER["death"]) for other in others):
        return "teardown" if role == "teardown" else "consequence"
    if any(_came_first(other, [failure], 0.0) for other in before):
        return "consequence"
    return "root"


def _came_first(failure: Failure, others: Sequence[Failure], slack: float) -> bool:
    """Whether it was clearly before all others; where a clock is missing, nobody knows."""
    times = [other.time for other in others if other.time is not None]
    if failure.time is None or len(times) < len(others):
        return False
    return failure.time < min(times) - slack
