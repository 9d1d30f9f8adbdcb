"""Who is missing from which collective: the sentence first, then the groups."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankdbg.frontends.reports import collective_words as words
from rankdbg.frontends.reports.ranks import (
    Paths,
    frame_json,
    marked,
    print_silent,
    silent_json,
)
from rankdbg.frontends.terminal import Terminal, cut, duration
from rankdbg.selection import format_numbers
from rankdbg.types import Frame, Rank, Silence
from rankdbg.verdicts.collectives import SETTLED_SECONDS, Culprit, Findings
from rankdbg.verdicts.groups import Group
from rankdbg.verdicts.mismatches import Mismatch
from rankdbg.verdicts.traces import Operation

MOST_GROUPS = 4
MOST_MISMATCHES = 8


@dataclass(frozen=True)
class Row:
    """Ranks at the same place of a group."""

    ranks: tuple[int, ...]
    entered: Operation | None  # the first that is not finished, else the last of all
    finished: Operation | None
    queued: int  # further operations behind `entered`
    mark: str


class CollectiveReport:
    def __init__(
        self,
        findings: Findings,
        *,
        silent: Sequence[Silence] = (),
        everybody: Sequence[Rank] = (),
        skipped: Sequence[tuple[str, str]] = (),
        shown: Iterable[int] | None = None,
    ) -> None:
        self.findings = findings
        self.job = findings.job
        self.silent, self.everybody, self.skipped = silent, everybody, skipped
        self.shown = {*self.job.ranks} if shown is None else {*shown}
        self.places: Mapping[int, Frame] = {
            rank.number: rank.where for rank in everybody if rank.number is not None and rank.where
        }
        frames = [f for t in self.job.traces.values() for op in t.operations for f in op.frames]
        self.paths = Paths(f.file for f in [*frames, *self.places.values()])

    @property
    def has_evidence(self) -> bool:
        return any(trace.operations or trace.entered for trace in self.job.traces.values())

    # --- groups -----------------------------------------------------------------------

    def rows(self, group: Group) -> list[Row]:
        found: dict[tuple[Any, ...], list[int]] = {}
        places: dict[tuple[Any, ...], tuple[Operation | None, Operation | None, int]] = {}
        missing = self._missing(group)
        for rank in group.members:
            operations = self.job.operations(rank, group)
            pending = [op for op in operations if not op.finished]
            finished = next((op for op in reversed(operations) if op.finished), None)
            entered = pending[0] if pending else finished
            mark = "missing" if rank in missing else self._mark(rank, group)
            key = (
                *_same(entered, group),
                *_same(finished, group),
                bool(pending),
                None if operations else self.job.traces[rank].entered.get(group.name),
                mark or self.job.traces[rank].absent,
            )
            found.setdefault(key, []).append(rank)
            places.setdefault(key, (entered, finished, max(0, len(pending) - 1)))
        rows = [Row(tuple(ranks), *places[key], _mark_of(key)) for key, ranks in found.items()]
        return sorted(rows, key=lambda row: (bool(row.mark), -len(row.ranks), row.ranks))

    def _missing(self, group: Group) -> set[int]:
        return {
            other
            for wait in self.findings.waits.values()
            if wait.group == group and wait.why in ("missing", "absent")
            for other in wait.others
        }

    def _mark(self, rank: int, group: Group) -> str:
        for mismatch in self.findings.mismatches:
            if mismatch.group == group and mismatch.pending and rank in mismatch.odd:
                return f"other {mismatch.kind}"
        return ""

    def groups(self) -> list[Group]:
        """Those of the verdict first, then those in which somebody waits."""
        told = [culprit.group for culprit in self.findings.culprits]
        told += [wait.group for wait in self.findings.undecided]
        waited = {wait.group for wait in self.findings.waits.values()}
        ordered = sorted(
            self.job.groups,
            key=lambda g: (told.index(g) if g in told else len(told), g not in waited),
        )
        return [group for group in ordered if self.shown & {*group.members}]

    # --- for programs -----------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        findings = self.findings
        return {
            "guilty": format_numbers(findings.guilty),
            "state": self.state,
            "culprits": [self._culprit_json(culprit) for culprit in findings.culprits],
            "waiting": format_numbers(findings.waits),
            "groups": [self._group_json(group) for group in self.groups()],
            "mismatches": [_mismatch_json(mismatch) for mismatch in findings.mismatches],
            "without_evidence": format_numbers(r for r in self.job.ranks if self._is_absent(r)),
            "without_entries": format_numbers(r for r in self.job.ranks if self._is_empty(r)),
            "silent": silent_json(self.silent),
            "skipped": [{"file": file, "reason": reason} for file, reason in self.skipped],
        }

    @property
    def state(self) -> str:
        if not self.has_evidence:
            return "unknown"
        if self.findings.culprits:
            return "held up"
        return "undecided" if self.findings.undecided else "nobody waits"

    def _is_absent(self, rank: int) -> bool:
        return bool(self.job.traces[rank].absent)

    def _is_empty(self, rank: int) -> bool:
        return not self._is_absent(rank) and not self.job.traces[rank].operations

    def _culprit_json(self, culprit: Culprit) -> dict[str, Any]:
        return {
            "ranks": format_numbers(culprit.ranks),
            "reason": culprit.reason,
            "text": words.culprit_sentence(culprit, self.findings),
            "waiting": format_numbers(culprit.waiting),
            "seconds": self._seconds(culprit),
            "entered": _operation_json(culprit.operation, culprit.group),
        }

    def _seconds(self, culprit: Culprit) -> float | None:
        """For how long the first of them has waited; dumps do not say when they were made."""
        ages = [
            (trace.now - wait.operation.created) / 1e9
            for rank in culprit.waiting
            if (wait := self.findings.waits.get(rank)) and (trace := self.job.traces[rank]).now
            if wait.operation.created
        ]
        return round(max(ages), 1) if ages else None

    def _group_json(self, group: Group) -> dict[str, Any]:
        return {
            "group": group.name,
            "description": group.description,
            "members": format_numbers(group.members),
            "missing": format_numbers(self._missing(group)),
            "ranks": [
                {
                    "ranks": format_numbers(row.ranks),
                    "count": len(row.ranks),
                    "waiting": row.entered is not None and not row.entered.finished,
                    "entered": _operation_json(row.entered, group),
                    "finished": _operation_json(row.finished, group),
                    "queued": row.queued,
                    "mark": row.mark,
                }
                for row in self.rows(group)
            ],
        }

    # --- for people -------------------------------------------------------------------

    def print(self, terminal: Terminal, *, full: bool = False) -> None:
        for line in self._verdict(terminal):
            terminal.print(line)
        for mismatch in self._other_mismatches()[: None if full else MOST_MISMATCHES]:
            text = f"mismatch: {words.mismatch_text(mismatch)}"
            for line in textwrap.wrap(text, terminal.width, subsequent_indent="  "):
                terminal.print(line)
        groups = self.groups()
        waited = {wait.group for wait in self.findings.waits.values()}
        shown = groups if full else [g for g in groups if g in waited][:MOST_GROUPS]
        if not waited and not full:
            shown = groups[:MOST_GROUPS]
        for group in shown:
            self._print_group(terminal, group)
        if len(shown) < len(groups):
            left = len(groups) - len(shown)
            busy = sum(group in waited for group in groups) - sum(g in waited for g in shown)
            groups_left = f"{left} more group{'s' if left > 1 else ''}"
            note = f"and {groups_left} ({busy} with ranks that wait); --full shows them"
            terminal.print(terminal.dim(note))
        self._print_remarks(terminal)
        if self.findings.guilty and self.everybody:
            ranks = format_numbers(self.findings.guilty)
            terminal.print(terminal.dim(f"hint: rankdbg stacks {ranks}"))

    def _verdict(self, terminal: Terminal) -> list[str]:
        findings = self.findings
        lines: list[str] = []
        if findings.culprits:
            ranks = findings.guilty
            hold = "holds" if len(ranks) == 1 else "hold"
            lines.append(terminal.red(f"{words.capital(words.named(ranks))} {hold} the others up."))
        texts = [self._told(culprit) for culprit in findings.culprits]
        texts += [words.undecided_sentence(wait, self.paths) for wait in findings.undecided]
        if not self.has_evidence:
            texts = ["Nothing is known: no rank has a record of any collective."]
        elif not texts:
            live = any(trace.now for trace in self.job.traces.values())
            settled = f"nothing is under way for longer than {SETTLED_SECONDS:g} s"
            done = "all that was entered has been finished"
            texts = [f"Nobody waits: {settled if live else done}."]
        for text in texts:
            lines += textwrap.wrap(text, terminal.width)
        return lines

    def _told(self, culprit: Culprit) -> str:
        text = words.culprit_sentence(culprit, self.findings)
        seconds = self._seconds(culprit)
        if seconds is not None:
            they = "It has" if len(culprit.waiting) == 1 else "They have"
            text += f" {they} waited {duration(seconds)}."
        at = sorted({self.paths.text(self.places[r]) for r in culprit.ranks if r in self.places})
        if at and len(at) <= 2:
            text += f" {words.capital(words.named(culprit.ranks))}: at {', '.join(at)}."
        return text

    def _other_mismatches(self) -> list[Mismatch]:
        """Those that the sentences have not told about."""
        told = {(c.group, c.operation.number) for c in self.findings.culprits}
        return [m for m in self.findings.mismatches if (m.group, m.number) not in told]

    def _print_group(self, terminal: Terminal, group: Group) -> None:
        terminal.print()
        members = words.numbers(group.members)
        terminal.print(cut(f"{words.group_name(group)}, ranks {members}", terminal.width))
        rows = [row for row in self.rows(group) if self.shown & {*row.ranks}]
        labels = [words.numbers(row.ranks) for row in rows]
        width = max(map(len, labels), default=0)
        for row, label in zip(rows, labels, strict=True):
            room = max(20, terminal.width - width - 4 - (len(row.mark) + 6 if row.mark else 0))
            text = cut(self._row_text(row, group), room)
            line = f"  {terminal.bold(f'{label:{width}}')}  {text}"
            terminal.print(marked(terminal, line, row.mark))

    def _row_text(self, row: Row, group: Group) -> str:
        trace = self.job.traces[row.ranks[0]]
        if row.entered is None and trace.entered.get(group.name, 0) > 0:
            return f"has finished #{trace.entered[group.name]}"
        if row.entered is None:
            unknown = trace.only_active
            nothing = "nothing under way here" if unknown else "has entered nothing here"
            return trace.absent or nothing
        what = f"{words.operation(row.entered, group)}"
        frame = words.place(row.entered)
        at = f"  {self.paths.line(frame)}" if frame else ""
        if row.entered.finished:
            return f"has finished {what}{at}"
        more = f", {row.queued} more behind it" if row.queued else ""
        return f"in {what}{at}  {words.tensors(row.entered)}{more}"

    def _print_remarks(self, terminal: Terminal) -> None:
        lines = []
        absent = [rank for rank in self.job.ranks if self._is_absent(rank)]
        silent = {silence.rank.number for silence in self.silent}
        if named := [rank for rank in absent if rank not in silent]:
            lines.append(f"without evidence: {words.numbers(named)}")
        remarks: dict[str, list[int]] = {}
        for rank in self.job.ranks:
            if self._is_empty(rank):
                remark = self.job.traces[rank].remark or "nothing is recorded"
                remarks.setdefault(remark, []).append(rank)
        lines += [f"empty: {words.numbers(ranks)}  ({why})" for why, ranks in remarks.items()]
        lines += [f"skipped: {file}  ({reason})" for file, reason in self.skipped]
        if lines or self.silent:
            terminal.print()
        for line in lines:
            terminal.print(line)
        print_silent(terminal, self.silent, self.everybody)


def _same(op: Operation | None, group: Group) -> tuple[Any, ...]:
    if op is None:
        return (None,)
    return op.name, op.number, words.far_end(op, group) if op.point_to_point else None


def _mark_of(key: tuple[Any, ...]) -> str:
    return key[-1] if key[-1] in ("missing",) or str(key[-1]).startswith("other ") else ""


def _operation_json(op: Operation | None, group: Group) -> dict[str, Any] | None:
    if op is None:
        return None
    return {
        "operation": op.name,
        "number": op.number,
        "group": group.name,
        "peer": words.far_end(op, group) if op.point_to_point else None,
        "input_sizes": [list(size) for size in op.input_sizes],
        "output_sizes": [list(size) for size in op.output_sizes],
        "dtypes": list(op.dtypes),
        "where": frame_json(words.place(op)),
    }


def _mismatch_json(mismatch: Mismatch) -> dict[str, Any]:
    return {
        "group": mismatch.group.name,
        "number": mismatch.number,
        "kind": mismatch.kind,
        "ranks": format_numbers(mismatch.odd),
        "others": format_numbers(mismatch.usual),
        "found": _operation_json(mismatch.found, mismatch.group),
        "expected": _operation_json(mismatch.expected, mismatch.group),
        "pending": mismatch.pending,
        "text": words.mismatch_text(mismatch),
    }
