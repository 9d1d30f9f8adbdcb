"""What came back from a command to many stopped ranks: equal outputs once, and who still runs."""

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
from rankdbg.selection import format_ranks
from rankdbg.types import Answer, Rank
from rankdbg.wire.answers import StopReport

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart

WITHOUT_OUTPUT = {"ended": "resumed", "cancelled": "pause cancelled"}


@dataclass(frozen=True, repr=False)
class CastOutputs(RankAnswers[StopReport]):
    """`all_ranks`: all ranks of the job, among which ranks are named. `differences`: files of
    code of which ranks run another version than is here."""

    differences: Sequence[SourceDifference] = ()

    @cached_property
    def running(self) -> list[Answer[StopReport]]:
        """Ranks that have not returned to their stop."""
        return self._in("running")

    @cached_property
    def not_stopped(self) -> list[Rank]:
        return [answer.rank for answer in self._in("none")]

    @cached_property
    def answered(self) -> list[Answer[StopReport]]:
        return self._in("stopped", *WITHOUT_OUTPUT)

    def _in(self, *states: str) -> list[Answer[StopReport]]:
        return [a for a in self.answers if isinstance(a, Answer) and a.value.state in states]

    @cached_property
    def groups(self) -> list[tuple[tuple[str, str], Sequence[Rank]]]:
        """((output, state), ranks)"""
        outputs = ((a.rank, (a.value.output, a.value.state)) for a in self.answered)
        return cast("list[tuple[tuple[str, str], Sequence[Rank]]]", grouping.group_equal(outputs))

    def still_running(self) -> list[tuple[str, list[Rank]]]:
        """Where the ranks are that have not returned, in words."""
        places = Paths(where.file for a in self.running if (where := a.value.where))
        still: dict[str, list[Rank]] = {}
        for answer in self.running:
            where = answer.value.where
            text = f"still running: {places.text(where)}" if where else "still running"
            if answer.value.busy:
                text = "busy with the command of another client"
            still.setdefault(text, []).append(answer.rank)
        return list(still.items())

    def as_json(self) -> dict[str, Any]:
        return {
            "groups": [
                {
                    "ranks": format_ranks(members, self.all_ranks),
                    "count": len(members),
                    "output": output,
                    "state": state,
                }
                for (output, state), members in self.groups
            ],
            "running": [
                {
                    "rank": answer.rank.number,
                    "role": answer.rank.role,
                    "host": answer.rank.host,
                    "pid": answer.rank.pid,
                    "where": frame_json(answer.value.where),
                    "busy": answer.value.busy,
                }
                for answer in self.running
            ],
            "not_stopped": format_ranks(self.not_stopped, self.all_ranks),
            "no_response": silent_json(self.no_response),
            "warnings": [difference.as_json(self.all_ranks) for difference in self.differences],
        }

    def summary(self) -> str:
        parts = [
            f"{len(self.answered)} answered, {len(self.groups)} different",
            f"still running: {len(self.running)}" if self.running else "",
            f"not stopped: {len(self.not_stopped)}" if self.not_stopped else "",
            f"no response: {len(self.no_response)}" if self.no_response else "",
        ]
        return ", ".join(filter(None, parts))

    def records(self) -> list[dict[str, Any]]:
        rows = [
            rank_record(a.rank, state=a.value.state, output=a.value.output)
            for a in self.answers
            if isinstance(a, Answer)
        ]
        return rows + silent_records(self.no_response)

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import ODD, Paragraph, Table, TableRow

        marks = grouping.odd_ones_out([len(members) for _, members in self.groups])
        rows = [
            TableRow((label(members, self.all_ranks), shown_output(*group)), ODD if is_odd else "")
            for (group, members), is_odd in zip(self.groups, marks, strict=True)
        ]
        rows += [TableRow((label(r, self.all_ranks), text)) for text, r in self.still_running()]
        texts = [f"{ranks}: {why}" for ranks, why in silent_lines(self.no_response, self.all_ranks)]
        if self.not_stopped:
            texts.append(f"not stopped: {label(self.not_stopped, self.all_ranks)}")
        texts += [each.sentence(self.all_ranks) for each in self.differences]
        return [Table(("ranks", "output"), rows), *map(Paragraph, texts)]


def shown_output(output: str, state: str) -> str:
    return output.rstrip("\n") or WITHOUT_OUTPUT.get(state, "(no output)")
