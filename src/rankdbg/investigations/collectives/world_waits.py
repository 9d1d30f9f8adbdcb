"""Who is missing from which collective of one world, by what the traces of its ranks say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rankdbg.investigations.collectives import collective_words as words
from rankdbg.investigations.rank_labels import Paths, frame_json, process_json
from rankdbg.text.amounts import duration
from rankdbg.types import Frame, ProcessKey, Rank
from rankdbg.verdicts.collectives.culprits import CollectiveFindings, Culprit
from rankdbg.verdicts.collectives.mismatches import Mismatch
from rankdbg.verdicts.collectives.process_groups import ProcessGroup, TracedJob
from rankdbg.verdicts.collectives.traces import Operation
from rankdbg.verdicts.collectives.worlds import World


@dataclass(frozen=True)
class GroupRow:
    """Ranks at the same place of a group, by torch's numbers."""

    ranks: tuple[int, ...]
    entered: Operation | None  # the first that is not finished, else the last of all
    finished: Operation | None
    queued: int  # further operations behind `entered`
    mark: str


@dataclass(frozen=True)
class WorldWaits:
    """`all_ranks`: all ranks of the job, among which ranks are named. `chosen`: the processes whose
    groups are listed; None: all."""

    world: World
    all_ranks: Sequence[Rank] = ()
    chosen: frozenset[ProcessKey] | None = None

    @property
    def findings(self) -> CollectiveFindings:
        return self.world.findings

    @property
    def job(self) -> TracedJob:
        return self.findings.job

    @cached_property
    def names(self) -> words.WorldNames:
        return words.WorldNames(self.world, self.all_ranks)

    @cached_property
    def shown(self) -> frozenset[int]:
        """torch's numbers of the processes whose groups are listed."""
        if self.chosen is None:
            return frozenset(self.job.ranks)
        return frozenset(n for n in self.job.ranks if self.world.rank(n).process in self.chosen)

    @cached_property
    def places(self) -> Mapping[int, Frame]:
        where = {rank.process: rank.where for rank in self.all_ranks if rank.where}
        return {
            number: where[rank.process]
            for number, rank in self.world.ranks.items()
            if rank.process in where
        }

    @cached_property
    def paths(self) -> Paths:
        frames = [f for t in self.job.traces.values() for op in t.operations for f in op.frames]
        return Paths(f.file for f in [*frames, *self.places.values()])

    @property
    def has_evidence(self) -> bool:
        return any(trace.operations or trace.entered for trace in self.job.traces.values())

    def processes(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        return [process_json(self.world.rank(number)) for number in numbers]

    def is_absent(self, rank: int) -> bool:
        return bool(self.job.traces[rank].absent)

    def is_empty(self, rank: int) -> bool:
        return not self.is_absent(rank) and not self.job.traces[rank].operations

    # --- groups -----------------------------------------------------------------------

    def rows(self, group: ProcessGroup) -> list[GroupRow]:
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
        rows = [GroupRow(tuple(ranks), *places[key], _mark_of(key)) for key, ranks in found.items()]
        return sorted(rows, key=lambda row: (bool(row.mark), -len(row.ranks), row.ranks))

    def _missing(self, group: ProcessGroup) -> set[int]:
        return {
            other
            for wait in self.findings.waits.values()
            if wait.group == group and wait.why in ("missing", "absent")
            for other in wait.others
        }

    def _mark(self, rank: int, group: ProcessGroup) -> str:
        for mismatch in self.findings.mismatches:
            if mismatch.group == group and mismatch.pending and rank in mismatch.odd:
                return f"other {mismatch.kind}"
        return ""

    def groups(self) -> list[ProcessGroup]:
        """Those of the verdict first, then those in which a rank waits."""
        told = [culprit.group for culprit in self.findings.culprits]
        told += [wait.group for wait in self.findings.undecided]
        waited = {wait.group for wait in self.findings.waits.values()}
        ordered = sorted(
            self.job.groups,
            key=lambda g: (told.index(g) if g in told else len(told), g not in waited),
        )
        return [group for group in ordered if self.shown & {*group.members}]

    # --- for programs -----------------------------------------------------------------

    def culprit_json(self, culprit: Culprit) -> dict[str, Any]:
        return {
            "ranks": self.names.all(culprit.ranks),
            "processes": self.processes(culprit.ranks),
            "reason": culprit.reason,
            "text": words.culprit_sentence(culprit, self.findings, self.names),
            "waiting": self.names.all(culprit.waiting),
            "seconds": self.seconds(culprit),
            "entered": self._operation_json(culprit.operation, culprit.group),
        }

    def seconds(self, culprit: Culprit) -> float | None:
        """For how long the first of them has waited; dumps do not say when they were made."""
        ages = [
            (trace.now - wait.operation.created) / 1e9
            for rank in culprit.waiting
            if (wait := self.findings.waits.get(rank)) and (trace := self.job.traces[rank]).now
            if wait.operation.created
        ]
        return round(max(ages), 1) if ages else None

    def group_json(self, group: ProcessGroup) -> dict[str, Any]:
        return {
            "group": group.name,
            "description": group.description,
            "members": self.names.all(group.members),
            "missing": self.names.all(self._missing(group)),
            "ranks": [
                {
                    "ranks": self.names.all(row.ranks),
                    "count": len(row.ranks),
                    "waiting": row.entered is not None and not row.entered.finished,
                    "entered": self._operation_json(row.entered, group),
                    "finished": self._operation_json(row.finished, group),
                    "queued": row.queued,
                    "mark": row.mark,
                }
                for row in self.rows(group)
            ],
        }

    def mismatch_json(self, mismatch: Mismatch) -> dict[str, Any]:
        return {
            "group": mismatch.group.name,
            "number": mismatch.number,
            "kind": mismatch.kind,
            "ranks": self.names.all(mismatch.odd),
            "processes": self.processes(mismatch.odd),
            "others": self.names.all(mismatch.usual),
            "found": self._operation_json(mismatch.found, mismatch.group),
            "expected": self._operation_json(mismatch.expected, mismatch.group),
            "pending": mismatch.pending,
            "text": self.mismatch_text(mismatch),
        }

    def _operation_json(self, op: Operation | None, group: ProcessGroup) -> dict[str, Any] | None:
        if op is None:
            return None
        return {
            "operation": op.name,
            "number": op.number,
            "group": group.name,
            "peer": self._peer(op, group),
            "input_sizes": [list(size) for size in op.input_sizes],
            "output_sizes": [list(size) for size in op.output_sizes],
            "dtypes": list(op.dtypes),
            "where": frame_json(words.place(op)),
        }

    def _peer(self, op: Operation, group: ProcessGroup) -> int | None:
        number = words.far_end(op, group) if op.point_to_point else None
        return None if number is None else self.world.rank(number).number

    # --- in words ---------------------------------------------------------------------

    def sentences(self) -> list[str]:
        """Who holds the others up and why, each in a sentence or two."""
        findings = self.findings
        texts = [self._told(culprit) for culprit in findings.culprits]
        for wait in findings.undecided:
            texts.append(words.undecided_sentence(wait, self.paths, self.names))
        return texts

    def _told(self, culprit: Culprit) -> str:
        text = words.culprit_sentence(culprit, self.findings, self.names)
        seconds = self.seconds(culprit)
        if seconds is not None:
            they = "It has" if len(culprit.waiting) == 1 else "They have"
            text += f" {they} waited {duration(seconds)}."
        at = sorted({self.paths.text(self.places[r]) for r in culprit.ranks if r in self.places})
        if at and len(at) <= 2:
            text += f" {self.names.first(culprit.ranks)}: at {', '.join(at)}."
        return text

    def other_mismatches(self) -> list[Mismatch]:
        """Those that the sentences have not told about."""
        told = {(c.group, c.operation.number) for c in self.findings.culprits}
        return [m for m in self.findings.mismatches if (m.group, m.number) not in told]

    def mismatch_text(self, mismatch: Mismatch) -> str:
        return words.mismatch_text(mismatch, self.names)

    def row_text(self, row: GroupRow, group: ProcessGroup) -> str:
        trace = self.job.traces[row.ranks[0]]
        if row.entered is None and trace.entered.get(group.name, 0) > 0:
            return f"has finished #{trace.entered[group.name]}"
        if row.entered is None:
            unknown = trace.only_active
            nothing = "nothing under way here" if unknown else "has entered nothing here"
            return trace.absent or nothing
        what = f"{words.operation(row.entered, group, self.names)}"
        frame = words.place(row.entered)
        at = f"  {self.paths.line(frame)}" if frame else ""
        if row.entered.finished:
            return f"has finished {what}{at}"
        more = f", {row.queued} more behind it" if row.queued else ""
        return f"in {what}{at}  {words.tensors(row.entered)}{more}"

    def empty_remarks(self) -> dict[str, list[Rank]]:
        """Why there is nothing of some ranks, and of which."""
        remarks: dict[str, list[Rank]] = {}
        for number in self.job.ranks:
            if self.is_empty(number):
                remark = self.job.traces[number].remark or "nothing is recorded"
                remarks.setdefault(remark, []).append(self.world.rank(number))
        return remarks

    def records(self) -> list[dict[str, Any]]:
        """One for each rank in each group."""
        rows = []
        for group in self.groups():
            for row in self.rows(group):
                entered, finished = row.entered, row.finished
                told = {
                    "group": group.name,
                    "description": group.description,
                    "entered": words.operation(entered, group, self.names) if entered else "",
                    "waiting": entered is not None and not entered.finished,
                    "finished": words.operation(finished, group, self.names) if finished else "",
                    "mark": row.mark,
                }
                shown = [number for number in row.ranks if number in self.shown]
                rows += [{**_record(self.world.rank(number)), **told} for number in shown]
        return rows


def _record(rank: Rank) -> dict[str, Any]:
    return {"rank": rank.number, "role": rank.role, "host": rank.host, "pid": rank.pid or None}


def _same(op: Operation | None, group: ProcessGroup) -> tuple[Any, ...]:
    if op is None:
        return (None,)
    return op.name, op.number, words.far_end(op, group) if op.point_to_point else None


def _mark_of(key: tuple[Any, ...]) -> str:
    return key[-1] if key[-1] in ("missing",) or str(key[-1]).startswith("other ") else ""
