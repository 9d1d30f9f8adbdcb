"""What logs say of a job as a value: what failed first, phases, the job's and its nodes' state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rankdbg.investigations.logs.job_files import JobState
from rankdbg.investigations.logs.rank_phases import RankPhases, phase_name, step_text, who_are
from rankdbg.investigations.nodes.node_states import NodeStates
from rankdbg.investigations.results import Result
from rankdbg.logs.patterns import FileScan
from rankdbg.process.masking import mask_text
from rankdbg.selection import format_numbers, format_ranks
from rankdbg.text.amounts import counted, duration
from rankdbg.text.cutting import cut
from rankdbg.types import Rank, missing_ranks
from rankdbg.verdicts.failures.events import Event
from rankdbg.verdicts.failures.job_phases import Course, courses
from rankdbg.verdicts.failures.log_lines import Origin
from rankdbg.verdicts.failures.root_causes import Diagnosis, Failure, diagnose
from rankdbg.verdicts.failures.stalls import Stall, find_stall, with_waits
from rankdbg.verdicts.failures.trends import Trend
from rankdbg.verdicts.rules.log_rules import LogRules

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart

MOST_OF_A_LINE = 1000  # characters of it in a document


@dataclass(frozen=True)
class Hang:
    """A job that runs and is stuck, in short: `rankdbg why` shows more."""

    culprit: str  # ranks
    cause: str
    says: str
    by_user: bool = False  # its culprits are stopped at breakpoints


@dataclass(frozen=True, repr=False)
class LogDiagnosis(Result):
    """`state`: None where there are only files; `hang`: None if the job is not stuck, or was not
    looked at."""

    scans: Sequence[FileScan]
    courses: Sequence[Course]
    diagnosis: Diagnosis
    state: JobState | None = None
    hang: Hang | None = None

    @classmethod
    def of(
        cls,
        scans: Sequence[FileScan],
        rules: LogRules,
        state: JobState | None,
        hang: Hang | None = None,
    ) -> LogDiagnosis:
        found = diagnose(scans, rules)
        found_courses = with_waits(courses(scans, rules, found.clocks))
        return cls(scans, found_courses, found, state, hang)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The first cause first."""
        return self.diagnosis.failures

    @property
    def finds_trouble(self) -> bool:
        """A failure, or a hang. A rank that the user has stopped at a breakpoint is neither."""
        if self.failures or self.stall is not None:
            return True
        return self.hang is not None and not self.hang.by_user

    @cached_property
    def stall(self) -> Stall | None:
        """Of logs alone: of a job that runs, `hang` says more."""
        if self.failures or self.state is not None or self.diagnosis.finished:
            return None
        return find_stall(self.courses)

    @cached_property
    def phases(self) -> RankPhases:
        return RankPhases(self.courses)

    @cached_property
    def nodes(self) -> NodeStates | None:
        return NodeStates(self.state.health, self.state.gpus) if self.state is not None else None

    def failures_json(self) -> list[dict[str, Any]]:
        """The first cause first."""
        return [failure_as_json(failure) for failure in self.failures]

    def first_in_words(self) -> str:
        """The first cause, and where; empty if nothing failed."""
        return "".join(f"{first.mode}{failed_where(first)}" for first in self.failures[:1])

    def first_line(self) -> str:
        return "".join(shown_line(first.first.text) for first in self.failures[:1])

    @property
    def gone(self) -> list[Rank]:
        ranks = self.state.ranks if self.state is not None else ()
        return [rank for rank in ranks if rank.state in ("gone", "zombie")]

    @property
    def missing(self) -> tuple[Rank, ...]:
        """Ranks of a job that runs of which nothing is left, or which have not started yet."""
        if self.state is None or not self.state.running or self.state.silent_nodes:
            return ()
        return missing_ranks(rank for rank in self.state.ranks if rank.kind == "rank")

    def as_json(self) -> dict[str, Any]:
        state = {"cluster": self._state_json(self.state)} if self.state is not None else {}
        health = {"nodes": self.nodes.as_json()} if self.nodes else {}
        hang = {"hang": asdict(self.hang)} if self.hang else {}
        return {**state, **health, **hang, **self._failures_json(), **self.phases.as_json()}

    def _state_json(self, state: JobState) -> dict[str, Any]:
        gone = [rank for rank in self.gone if rank.number is not None]
        return {
            "job": state.job,
            "running": state.running,
            "ranks": len(state.ranks),
            "gone": format_ranks(gone, state.ranks),
            "missing": format_ranks(self.missing, state.ranks),
            "nodes": state.nodes,
            "no_response_nodes": state.silent_nodes,
            "notes": [*state.notes, *state.hints],
        }

    def _failures_json(self) -> dict[str, Any]:
        return {
            "failures": [failure_as_json(failure) for failure in self.diagnosis.failures],
            "stall": None if self.stall is None else stall_as_json(self.stall),
            "events": [event_as_json(event) for event in self.diagnosis.events],
            # Each a cause and its consequence, by their numbers among the events.
            "explains": [list(edge) for edge in self.diagnosis.explanation.edges],
            "confidence": self._confidence_json(),
            "bad_values": self._bad_values_json(),
            "trends": [_trend_json(trend) for trend in self.diagnosis.trends],
            "harmless": [
                {"mode": h.mode, "count": h.count, "line": safe_line(h.line), "cause": h.cause}
                for h in self.diagnosis.harmless
            ],
            "files": [
                {
                    "path": scan.path,
                    "bytes": scan.size,
                    "error": scan.error,
                    "kind": scan.file.kind if scan.file else "given",
                    "ranks": format_numbers(scan.file.ranks) if scan.file else "",
                }
                for scan in self.scans
            ],
        }

    def _confidence_json(self) -> dict[str, Any] | None:
        found = self.diagnosis.confidence
        if found is None:
            return None
        reasons = [mask_text(reason) for reason in found.reasons]
        return {"level": found.level, "reasons": reasons, "runner_up": found.runner_up}

    def _bad_values_json(self) -> dict[str, Any] | None:
        found = self.diagnosis.bad_values
        if found is None:
            return None
        return {**vars(found), "poisoned": list(found.poisoned)}

    def evidence(self) -> list[str]:
        """Every line that shows a failure, by failure, the first cause first."""
        lines = []
        for failure in self.diagnosis.failures:
            lines.append(f"# {failure.mode} ({failure.role})")
            lines += [mask_text(finding.evidence) for finding in failure.findings]
        return lines

    def summary(self) -> str:
        read = f"{counted(len(self.scans), 'file')} read"
        if self.stall is not None:
            return f"no failure, but {stall_in_words(self.stall)}, {read}"
        if not self.failures:
            return f"no failure that a rule knows, {read}"
        first = self.failures[0]
        return f"{first.mode}{failed_where(first)}, {read}"

    def records(self) -> list[dict[str, Any]]:
        """One for each failure, the first cause first."""
        rows = []
        for failure in self.failures:
            document = failure_as_json(failure)
            first = document.pop("first")
            plain = {key: value for key, value in document.items() if isinstance(value, (str, int))}
            told = {key: first[key] for key in ("file", "line", "time")}
            rows.append({**plain, **told, "text": mask_text(failure.first.text)})
        return rows

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import FactTable, Paragraph, Table, TableRow

        parts: list[HtmlPart] = []
        if self.stall is not None:
            parts.append(Paragraph(f"Nothing has failed, but {stall_in_words(self.stall)}."))
        for failure in self.failures:
            if failure.role == "root":
                rule = failure.first.rule
                place = f"{failure.first.path}:{failure.first.line}"
                facts = [
                    ("failure", f"{failure.mode}{failed_where(failure)}"),
                    ("line", f"{shown_line(failure.first.text)}\n{place}"),
                    ("cause", rule.cause),
                    ("next", rule.fix),
                ]
                parts.append(FactTable(facts))
        then = [
            TableRow((failure.mode, failed_where(failure).strip(), shown_line(failure.first.text)))
            for failure in self.failures
            if failure.role != "root"
        ]
        parts += [Table(("then", "where", "line"), then), *self.phases._parts()]
        parts += self.nodes.complaint_parts() if self.nodes else []
        if self.state is not None:
            parts += [Paragraph(f"{node}: {why}") for node, why in self.state.silent_nodes.items()]
        return parts


def failure_as_json(failure: Failure) -> dict[str, Any]:
    return {
        "mode": failure.mode,
        "kind": failure.first.rule.kind,
        "role": failure.role,
        "ranks": format_numbers(failure.ranks),
        "host": failure.host,
        "time": None if failure.time is None else _iso(failure.time),
        "first": {
            "ranks": format_numbers(failure.first.ranks),
            "file": failure.first.path,
            "line": failure.first.line,
            "process": failure.first.origin.actor,
            "pid": failure.first.origin.pid,
            "address": failure.first.origin.address,
            "time": None if failure.first.time is None else _iso(failure.first.time),
        },
        "count": len(failure.findings),
        "lines": [safe_line(line) for line in failure.lines],
        "cause": failure.first.rule.cause,
        "next": failure.first.rule.fix,
        "links": list(failure.first.rule.links),
    }


def stall_as_json(stall: Stall) -> dict[str, Any]:
    worst = stall.worst
    courses = () if stall.of_job else stall.courses
    ranks = {course.who.rank for course in courses} - {None}
    return {
        "ranks": format_numbers(sorted(rank for rank in ranks if rank is not None)),
        "process": "" if stall.of_job else worst.who.actor,
        "pid": None if stall.of_job else worst.who.pid,
        "host": "" if stall.of_job else stall.host,
        "stack": worst.now.rule.stack,
        "phase": phase_name(worst.now),
        "step": worst.now.step,
        "silent_seconds": worst.silent,
        "allowed_seconds": worst.now.rule.quiet,
        "file": worst.path,
        "line": safe_line(worst.now.line),
        "waiting": [who_are(members) for members in RankPhases(stall.waiting).members()],
    }


def stall_in_words(stall: Stall) -> str:
    """SglEngine rank 1 (node2) has written nothing for 50 min, in cuda graphs"""
    worst = stall.worst
    if stall.of_job:
        last = f"{phase_name(worst.now)}{step_text(worst.now)}, by {who_are(stall.courses)}"
        return f"no step was logged for {duration(worst.silent or 0.0)}: the last is {last}"
    where = f" ({stall.host})" if stall.host else ""
    have = "have" if len(stall.courses) > 1 else "has"
    long = duration(worst.silent or 0.0)
    phase = f"{phase_name(worst.now)}{step_text(worst.now)}"
    return f"{who_are(stall.courses)}{where} {have} written nothing for {long}, in {phase}"


def _trend_json(trend: Trend) -> dict[str, Any]:
    return {**vars(trend), "ranks": format_numbers(trend.ranks)}


def trend_in_words(trend: Trend) -> str:
    if not trend.ranks:
        return trend.sentence
    several = "s" if len(trend.ranks) > 1 else ""
    return f"rank{several} {cut(format_numbers(trend.ranks), 40)}: {trend.sentence}"


def event_as_json(event: Event) -> dict[str, Any]:
    times = (event.time, event.until)
    since, until = (None if time is None else _iso(time) for time in times)
    return {
        "mode": event.mode,
        "ranks": format_numbers(event.ranks),
        "host": event.host,
        "since": since,
        "until": until,
        "attempt": event.attempt,
        "outcome": event.outcome,
        "why": safe_line(event.why),
        "line": safe_line(event.first.evidence),
        "count": len(event.findings),
    }


def _iso(time: float) -> str:
    return datetime.fromtimestamp(time).isoformat(timespec="milliseconds")


def failed_where(failure: Failure) -> str:
    """The one that came first is named if there are several."""
    first = failure.first
    # Those that wrote the line may have waited for others, which are accused.
    own = [rank for rank in first.ranks if rank in failure.ranks]
    if failure.host and first.origin.actor == "" and first.origin.pid is None:
        ranks = failure.ranks
        if not ranks:
            return f" on {failure.host}"
        several = f" (rank {own[0]} first)" if len(ranks) > 1 and own else ""
        number = cut(format_numbers(ranks), 40)
        return f" on rank{'s' * (len(ranks) > 1)} {number}{several} ({failure.host})"
    return whose(failure.ranks, first.origin, own)


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


def safe_line(text: str) -> str:
    """For a document: masked, with control characters spelled out, and cut."""
    return cut(mask_text(text), MOST_OF_A_LINE)


def shown_line(text: str) -> str:
    return " ".join(mask_text(text).split())
