"""The stops of many ranks, and the operations that do not wait for a rank that is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from rankdbg import grouping
from rankdbg.investigations.rank_labels import (
    Paths,
    frame_json,
    label,
    silent_json,
    silent_lines,
)
from rankdbg.investigations.results import RankAnswers, rank_record, silent_records
from rankdbg.investigations.stops.stop_sources import SourceDifference
from rankdbg.process.identity import WAITS_FOR_EDITOR
from rankdbg.text.amounts import counted, duration
from rankdbg.types import Answer, Frame, Rank, Reply
from rankdbg.wire.answers import HeldTimeouts, LimitedOperation, StopReport, StopReports

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart


@dataclass(frozen=True)
class OperationLimits:
    """Operations that began before timeouts were held, and keep the limits that they had. From
    answers that have `in_flight`, and `refused`: groups that cannot be held."""

    answers: Sequence[Reply[StopReports]] | Sequence[Reply[HeldTimeouts]]
    all_ranks: Sequence[Rank]

    @cached_property
    def operations(self) -> list[tuple[Rank, LimitedOperation]]:
        return [(a.rank, entry) for a in self._answered() for entry in a.value.in_flight]

    @cached_property
    def refused(self) -> list[tuple[Rank, str]]:
        return [
            (answer.rank, name)
            for answer in self._answered()
            if isinstance(answer.value, HeldTimeouts)
            for name in answer.value.refused
        ]

    def _answered(self) -> list[Answer[StopReports] | Answer[HeldTimeouts]]:
        return [answer for answer in self.answers if isinstance(answer, Answer)]

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {"rank": rank.number, "pid": rank.pid, "host": rank.host, **vars(entry)}
            for rank, entry in self.operations
        ]

    def warnings(self) -> list[str]:
        """A sentence for all ranks of which it is true."""
        return [
            f"{'ranks' if len(members) > 1 else 'rank'} {label(members, self.all_ranks)}: {text}"
            for text, members in grouping.group_equal(self._sentences())
        ]

    def _sentences(self) -> list[tuple[Rank, str]]:
        """Those that differ only in the time left are equal, with the least of it."""
        least: dict[tuple[Any, ...], float] = {}
        for _, entry in self.operations:
            if entry.left is not None:
                least[_kind(entry)] = min(entry.left, least.get(_kind(entry), entry.left))
        told = [(rank, _sentence(e, least.get(_kind(e)))) for rank, e in self.operations]
        told += [
            (rank, f"the timeout of group {name} cannot be held") for rank, name in self.refused
        ]
        return told


@dataclass(frozen=True, repr=False)
class RankStops(RankAnswers[StopReports]):
    """`all_ranks`: all ranks of the job, among which ranks are named. `differences`: files of
    code of which ranks run another version than is here."""

    differences: Sequence[SourceDifference] = ()

    @cached_property
    def stops(self) -> list[tuple[Rank, StopReport]]:
        return [(answer.rank, stop) for answer in self.answered for stop in answer.value.stops]

    @cached_property
    def limits(self) -> OperationLimits:
        return OperationLimits(self.answers, self.all_ranks)

    @property
    def held_back(self) -> list[Rank]:
        """Ranks that are not stopped, and run nothing yet (--wait-for-editor)."""
        return [rank for rank in self.all_ranks if rank.detail == WAITS_FOR_EDITOR]

    def none_stopped(self) -> str:
        """What to say where no rank is stopped."""
        text = "no rank is stopped"
        if self.held_back:
            who = label(self.held_back, self.all_ranks)
            waits = "waits" if len(self.held_back) == 1 else "wait"
            text += f"; {who} {waits} for an editor before the first line (continue lets them go)"
        return text

    def groups(self) -> list[tuple[tuple[str, str, str, str], Sequence[Rank]]]:
        """((kind, thread, where, why), ranks): equal stops once."""
        paths = Paths(where.file for _, stop in self.stops if (where := stop.where))

        def row(stop: StopReport) -> tuple[str, ...]:
            kind = stop.kind if stop.state == "stopped" else f"{stop.kind} (running)"
            thread = "" if stop.main else stop.thread
            return kind, thread, paths.text(stop.where) if stop.where else "", stop.why

        groups = grouping.group_equal((rank, row(stop)) for rank, stop in self.stops)
        return cast("list[tuple[tuple[str, str, str, str], Sequence[Rank]]]", groups)

    def as_json(self) -> dict[str, Any]:
        return {
            "stops": [
                {
                    "rank": rank.number,
                    "role": rank.role,
                    "pid": rank.pid,
                    "host": rank.host,
                    "stop": stop.stop,
                    "thread": stop.thread,
                    "kind": stop.kind,
                    "why": stop.why,
                    "state": stop.state,
                    "where": frame_json(stop.where),
                }
                for rank, stop in self.stops
            ],
            "held_back": [rank.number for rank in self.held_back],
            "in_flight": self.limits.as_json(),
            "no_response": silent_json(self.no_response),
            "warnings": [difference.as_json(self.all_ranks) for difference in self.differences],
        }

    def summary(self) -> str:
        if not self.stops:
            return self.none_stopped()
        count = len(self.stops)
        who = label({rank.process: rank for rank, _ in self.stops}.values(), self.all_ranks)
        return f"{counted(count, 'stop')}: {who}"

    def records(self) -> list[dict[str, Any]]:
        rows = []
        for rank, stop in self.stops:
            where = stop.where or Frame("", "", 0)
            place = {"function": where.function, "file": where.file, "line": where.line}
            told = {key: getattr(stop, key) for key in ("thread", "kind", "why", "state")}
            rows.append(rank_record(rank, **told, **place))
        return rows + silent_records(self.no_response)

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Paragraph, Table, TableRow

        rows = [TableRow((label(ranks, self.all_ranks), *cells)) for cells, ranks in self.groups()]
        texts = [f"{ranks}: {why}" for ranks, why in silent_lines(self.no_response, self.all_ranks)]
        texts += self.limits.warnings()
        texts += [each.sentence(self.all_ranks) for each in self.differences]
        columns = ("ranks", "stop", "thread", "where", "why")
        return [Table(columns, rows), *map(Paragraph, texts)]


@dataclass(frozen=True, repr=False)
class PausedRanks(RankAnswers[StopReport]):
    """Which ranks a pause has stopped, and where; which are in C."""

    def groups(self) -> list[tuple[str, Sequence[Rank]]]:
        """What there is to say, and of which ranks."""
        paths = Paths(where.file for a in self.answered if (where := a.value.where))

        def sentence(answer: Answer[StopReport]) -> str:
            where = answer.value.where
            words = PAUSES.get(answer.value.state, "{where}")
            return words.format(where=paths.text(where) if where else "an unknown place")

        groups = grouping.group_equal((a.rank, sentence(a)) for a in self.answered)
        return cast("list[tuple[str, Sequence[Rank]]]", groups)

    def as_json(self) -> dict[str, Any]:
        return {
            "ranks": [
                {
                    "rank": answer.rank.number,
                    "role": answer.rank.role,
                    "host": answer.rank.host,
                    "pid": answer.rank.pid,
                    "state": answer.value.state,
                    "where": frame_json(answer.value.where),
                }
                for answer in self.answered
            ],
            "no_response": silent_json(self.no_response),
        }

    def summary(self) -> str:
        return "; ".join(f"{label(ranks, self.all_ranks)} {text}" for text, ranks in self.groups())

    def records(self) -> list[dict[str, Any]]:
        rows = [rank_record(answer.rank, state=answer.value.state) for answer in self.answered]
        return rows + silent_records(self.no_response)

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Paragraph, Table, TableRow

        rows = [TableRow((label(ranks, self.all_ranks), text)) for text, ranks in self.groups()]
        texts = [f"{ranks}: {why}" for ranks, why in silent_lines(self.no_response, self.all_ranks)]
        return [Table(("ranks", "pause"), rows), *map(Paragraph, texts)]


PAUSES = {
    "stopped": "stopped at {where}",
    "running": "in the debugger already, busy with a command at {where}",
    "blocked": "in C, at {where}: stops as soon as the call returns",
    "later": "at {where}: stops at its next endpoint (at once only on Python 3.12 or later)",
    "cancelled": "not stopped yet, and will not be",
    "none": "was not about to stop",
}


def _kind(entry: LimitedOperation) -> tuple[Any, ...]:
    return entry.operation, entry.group, entry.limit


def _sentence(entry: LimitedOperation, left: float | None) -> str:
    group = f" of group {entry.group}" if entry.group else ""
    began = f"{entry.operation}{group} began before timeouts were held and keeps its limit"
    if left is None or entry.limit is None:
        return began
    return f"{began} of {duration(entry.limit)}: {duration(left)} left"
