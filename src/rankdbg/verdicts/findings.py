"""What the scans of log files found: one finding for each line that a rule knows."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.verdicts.clock_skew import Clocks
from rankdbg.verdicts.log_lines import Origin, Origins, read_stamp, year_of
from rankdbg.verdicts.log_rules import TRACEBACK, FailureRule, LogRules
from rankdbg.verdicts.tracebacks import Traceback, read_traceback

NEAR = 40  # lines: what stands closer together in one file, of one rank, is one event
PYTHON_ERROR = "python_error"
_DAY = 86_400.0
# Errors that a process gets because another has ended.
_OF_OTHERS = re.compile(
    r"\b(Dist(Backend|Network|Store)Error|BrokenPipeError|ConnectionResetError|EOFError"
    r"|CancelledError)\b"
)


@dataclass(frozen=True)
class Finding:
    rule: FailureRule
    path: str
    line: int
    text: str
    ranks: tuple[int, ...]
    origin: Origin
    time: float | None
    modified: float
    beside: tuple[str, ...] = ()  # lines of the same event that say it less exactly

    @property
    def mode(self) -> str:
        return self.rule.mode

    @property
    def evidence(self) -> str:
        return f"{self.path}:{self.line}: {self.text.strip()}"


@dataclass(frozen=True)
class Calm:
    """A line that looks alarming and is not."""

    mode: str
    text: str
    cause: str


class Findings:
    """All failures and harmless lines of some files, those that say the same joined."""

    def __init__(self, scans: Sequence[FileScan], rules: LogRules, origins: Origins) -> None:
        self._rules = rules
        self._origins = origins
        self._year = year_of(scans)
        self._clocks = Clocks(scans, rules, origins, self._year)
        self.harmless: list[Calm] = []
        self.failures: list[Finding] = []
        for scan in scans:
            self.failures += _joined(self._of_file(scan))
        self.failures = _told_apart(self.failures, rules)

    def _of_file(self, scan: FileScan) -> list[Finding]:
        found: list[Finding] = []
        calmed: set[tuple[str, int]] = set()
        lines: dict[int, list[Hit]] = {}
        for hit in scan.hits:
            lines.setdefault(hit.offset, []).append(hit)
        for hits in lines.values():
            calm = [hit for hit in hits if hit.pattern.startswith("harmless:")]
            for hit in calm:
                rule = self._rules.harmless[hit.pattern.removeprefix("harmless:")]
                self.harmless.append(Calm(rule.mode, hit.text, rule.cause))
                calmed |= {(mode, hit.line - back) for mode in rule.calms for back in range(3)}
            if not calm:
                found += [
                    self._finding(scan, hit, self._rules.failures[hit.pattern.partition(":")[2]])
                    for hit in hits
                    if hit.pattern.startswith("failure:")
                ]
        found = [finding for finding in found if (finding.mode, finding.line) not in calmed]
        found += self._errors(scan, found)
        return _by_one_clock(sorted(found, key=lambda finding: finding.line))

    def _finding(self, scan: FileScan, hit: Hit, rule: FailureRule) -> Finding:
        origin = self._origins.of(scan.path, hit)
        named = _ranks_named(rule, [*hit.before, hit.text, *hit.after]) if rule.rank else ()
        ranks = named or (() if origin.rank is None else (origin.rank,))
        time = read_stamp(hit.stamp, self._year) if hit.stamp else None
        if time is not None:
            time -= self._clocks.ahead(scan.path, hit)
        return Finding(rule, scan.path, hit.line, hit.text, ranks, origin, time, scan.modified)

    def _errors(self, scan: FileScan, known: Sequence[Finding]) -> Iterator[Finding]:
        """Tracebacks whose errors no rule knows."""
        last = 0
        for hit in scan.hits:
            if hit.pattern != TRACEBACK or hit.line <= last:
                continue
            traceback = read_traceback(hit)
            if traceback is None or "Exception ignored in" in "".join((*hit.before, hit.text)):
                continue
            last = traceback.last
            if traceback.error.startswith(("SystemExit", "KeyboardInterrupt", "GeneratorExit")):
                continue
            if _is_known(traceback, known):
                continue
            rule = self._rules.failures[PYTHON_ERROR]
            if _OF_OTHERS.search(traceback.error):
                rule = replace(rule, role="consequence")
            finding = self._finding(scan, hit, rule)
            text = traceback.error + (f"   ({traceback.where})" if traceback.where else "")
            yield replace(finding, text=text)


def _is_known(traceback: Traceback, known: Iterable[Finding]) -> bool:
    inside = [f for f in known if traceback.first <= f.line <= traceback.last + 1]
    if any(traceback.error[:60] in finding.text for finding in inside):
        return True
    errors = [error[:60] for error in traceback.errors]
    strong = [f for f in inside if f.rule.role in ("root", "death")]
    return any(error in finding.text for finding in strong for error in errors)


def _ranks_named(rule: FailureRule, lines: Iterable[str]) -> tuple[int, ...]:
    for line in lines:
        if match := re.search(rule.rank, line):
            text = next((value for value in match.groupdict().values() if value), "")
            return tuple(_numbers(text))
    return ()


def _numbers(text: str) -> Iterator[int]:
    """0,2-5 as Slurm writes it."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and len(first) < 7:
            end = int(last) if last.isdigit() else int(first)
            yield from range(int(first), min(end, int(first) + 100_000) + 1)


def _by_one_clock(findings: list[Finding]) -> list[Finding]:
    """Lines that stand together were written one after the other, whatever a clock says that goes
    days back: a machine with a wrong date, or a line that quotes another time."""
    settled: list[Finding] = []
    for finding in findings:
        last = settled[-1] if settled else None
        if (
            last is not None
            and finding.line - last.line <= NEAR
            and finding.time is not None
            and last.time is not None
            and finding.time < last.time - _DAY
        ):
            finding = replace(finding, time=last.time)
        settled.append(finding)
    return settled


def _joined(findings: list[Finding]) -> list[Finding]:
    """Of findings that are one event, those that say it best."""
    # By line, so that a file with very many of them is not compared line by line with itself.
    lines = [finding.line for finding in findings]
    beaten: dict[int, Finding] = {}
    for better in findings:
        if not better.rule.beats:
            continue
        first = bisect_left(lines, better.line - NEAR)
        for number in range(first, bisect_right(lines, better.line + NEAR)):
            other = findings[number]
            if other.mode in better.rule.beats and _same_event(better, other):
                beaten[number] = better
    beside: dict[int, list[str]] = {}
    for number, better in beaten.items():
        beside.setdefault(id(better), []).append(findings[number].evidence)
    return [
        replace(finding, beside=tuple(beside.get(id(finding), ())))
        for number, finding in enumerate(findings)
        if number not in beaten
    ]


def _same_event(one: Finding, other: Finding) -> bool:
    if abs(one.line - other.line) > NEAR or (
        one.ranks and other.ranks and one.ranks != other.ranks
    ):
        return False
    if one.time is not None and other.time is not None:
        return abs(one.time - other.time) <= 60
    return True


def _told_apart(findings: list[Finding], rules: LogRules) -> list[Finding]:
    """Where ranks should agree in some fields and do not, it is another mode."""
    values: dict[tuple[str, str], dict[tuple[int, ...], tuple[str, ...]]] = {}
    for finding in findings:
        rule = finding.rule
        if rule.differ and rule.fields and (match := re.search(rule.fields, finding.text)):
            group = match.groupdict().get("group") or ""
            rest = tuple(v or "" for key, v in match.groupdict().items() if key != "group")
            values.setdefault((rule.mode, group), {}).setdefault(finding.ranks, rest)
    apart = {mode for (mode, _), by_rank in values.items() if len(set(by_rank.values())) > 1}
    return [
        replace(finding, rule=rules.failures[finding.rule.differ])
        if finding.mode in apart and finding.rule.differ in rules.failures
        else finding
        for finding in findings
    ]
