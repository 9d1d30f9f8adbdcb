"""Findings that are one event: of several lines about it, those that say it best, with what the others
add to it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rankdbg.logs.expressions import expression
from rankdbg.verdicts.failures.findings import PYTHON_ERROR, Finding
from rankdbg.verdicts.rules.log_rules import LogRules

NEAR = 40  # lines: what stands closer together in one file, of one rank, is one event
FAR = 120  # lines: the kernel lists all processes between two lines about one kill
BESIDE = 4  # lines: what says the same there is one message
SIGTERM, TERMINATED = "torchrun_sigterm_external", "torchrun_worker_terminated"
_SENT = re.compile(r"Sending process (\d+) closing signal")
_GOT = re.compile(r"Signal 15 \(SIGTERM\) received by PID (\d+)")
_DAY = 86_400.0
_KILLED = re.compile(r"Killed process \d+ \(")


def by_one_clock(findings: list[Finding]) -> list[Finding]:
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


def with_victims(findings: list[Finding]) -> list[Finding]:
    """The kernel says who called the OOM killer before it says whom that has killed."""
    made = []
    for finding in findings:
        if finding.rule.kind == "host_memory" and finding.pid is None and not finding.ranks:
            near = [f for f in findings if f.pid is not None and abs(f.line - finding.line) <= FAR]
            near = [f for f in near if f.rule.kind == "host_memory"]
            if near:
                victim = min(near, key=lambda f: abs(f.line - finding.line))
                finding = replace(finding, pid=victim.pid, ranks=victim.ranks, host=victim.host)
        made.append(finding)
    return made


def by_victim(findings: list[Finding]) -> list[Finding]:
    """Of the lines of one OOM kill, the one that says who was killed and how large it was."""
    kills = {
        (finding.mode, finding.pid): finding
        for finding in findings
        if finding.rule.kind == "host_memory" and _KILLED.search(finding.text)
    }
    beside: dict[int, list[str]] = {}
    made = []
    for finding in findings:
        kill = kills.get((finding.mode, finding.pid), finding)
        if abs(kill.line - finding.line) > FAR or _KILLED.search(finding.text):
            kill = finding
        if kill is finding:
            made.append(finding)
        else:
            beside.setdefault(id(kill), []).append(finding.evidence)
    return [replace(f, beside=(*f.beside, *beside[id(f)])) if id(f) in beside else f for f in made]


def with_places(findings: list[Finding]) -> list[Finding]:
    """Of a message of several lines, only one may say whom it is about. Of a host that has failed,
    it is not the one that says so."""
    made = []
    for number, finding in enumerate(findings):
        told_by_other = finding.rule.of_host and finding.rule.about and not finding.named
        if told_by_other or not (finding.host or finding.ranks or finding.pid):
            beside = findings[max(0, number - BESIDE) : number + BESIDE + 1]
            placed = [f for f in beside if f.mode == finding.mode and (f.host or f.ranks)]
            near = [f for f in placed if abs(f.line - finding.line) <= BESIDE]
            near = [f for f in near if f.named] or ([] if told_by_other else near)
            if near:
                placed_by = min(near, key=lambda other: abs(other.line - finding.line))
                finding = replace(
                    finding, host=placed_by.host, ranks=placed_by.ranks, pid=placed_by.pid
                )
        made.append(finding)
    return made


def joined(findings: list[Finding]) -> list[Finding]:
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
            if _is_exception_of_rank(better, other):
                continue
            if other.mode in better.rule.beats and _same_event(better, other):
                beaten[number] = better
    beside: dict[int, list[Finding]] = {}
    for number, better in beaten.items():
        beside.setdefault(id(better), []).append(findings[number])
    return [
        _with_beside(finding, beside.get(id(finding), []))
        for number, finding in enumerate(findings)
        if number not in beaten
    ]


def _is_exception_of_rank(end: Finding, other: Finding) -> bool:
    """Whether the one is the end of a job, and the other the exception that stands before it, as the
    lines of a launcher follow those of the rank that has failed, or that it quotes as a rank's."""
    if other.mode != PYTHON_ERROR or other.rule.role != "root" or end.rule.role != "teardown":
        return False
    return other.line < end.line or bool(other.ranks and not end.ranks)


def _with_beside(finding: Finding, beside: Sequence[Finding]) -> Finding:
    """Whom a launcher names beside it as killed, that is whom it is about."""
    ranks, host = finding.ranks, finding.host
    killed = [other for other in beside if other.rule.role == "death" and other.ranks]
    if not ranks and not finding.rule.of_host and len({other.ranks for other in killed}) == 1:
        ranks, host = killed[0].ranks, host or killed[0].host
    evidence = tuple(other.evidence for other in beside)
    # The program went on after it, and then gave up.
    gave_up = any(other.mode == PYTHON_ERROR and not other.calm for other in beside)
    calm = "" if gave_up else finding.calm
    beside_it = (*finding.beside, *evidence)
    return replace(finding, beside=beside_it, ranks=ranks, host=host, calm=calm)


def _same_event(one: Finding, other: Finding) -> bool:
    if abs(one.line - other.line) > NEAR or (
        one.ranks and other.ranks and one.ranks != other.ranks
    ):
        return False
    if None not in (one.process, other.process) and one.process != other.process:
        return False
    if one.time is not None and other.time is not None:
        return abs(one.time - other.time) <= 60
    return True


def sent_by_launcher(findings: list[Finding], rules: LogRules) -> list[Finding]:
    """A signal that the launcher itself has sent to a worker does not come from outside."""
    if TERMINATED not in rules.failures:
        return findings
    sent = {found[1] for f in findings if f.mode == TERMINATED and (found := _SENT.search(f.text))}
    made = []
    for finding in findings:
        got = _GOT.search(finding.text) if finding.mode == SIGTERM else None
        if got and got[1] in sent:
            finding = replace(finding, rule=rules.failures[TERMINATED])
        made.append(finding)
    return made


def told_apart(findings: list[Finding], rules: LogRules) -> list[Finding]:
    """Where ranks should agree in some fields and do not, it is another mode."""
    values: dict[tuple[str, str], dict[tuple[int, ...], tuple[str, ...]]] = {}
    for finding in findings:
        rule = finding.rule
        fields = expression(rule.fields, f"rule {rule.mode}: fields")
        if rule.differ and rule.fields and (match := fields.search(finding.text)):
            group = match.groupdict().get("group") or ""
            rest = tuple(v or "" for key, v in match.groupdict().items() if key != "group")
            values.setdefault((rule.mode, group), {}).setdefault(finding.ranks, rest)
    apart = {mode for (mode, _), by_rank in values.items() if len(set(by_rank.values())) > 1}
    odd = {(mode, ranks) for (mode, _), told in values.items() for ranks in _odd_ones(told)}
    return [
        replace(
            finding,
            rule=rules.failures[finding.rule.differ],
            odd=(finding.mode, finding.ranks) in odd,
        )
        if finding.mode in apart and finding.rule.differ in rules.failures
        else finding
        for finding in findings
    ]


def _odd_ones(told: Mapping[tuple[int, ...], tuple[str, ...]]) -> list[tuple[int, ...]]:
    """Those that differ from a clear majority."""
    (usual, count), *_ = Counter(told.values()).most_common(1)
    return (
        [ranks for ranks, said in told.items() if said != usual]
        if 3 * count > 2 * len(told)
        else []
    )
