"""What ranks say about breaks: set, cleared, listed; equal answers once."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from rankdbg import grouping
from rankdbg.investigations.rank_labels import label, silent_json, silent_lines
from rankdbg.investigations.results import RankAnswers, rank_record, silent_records
from rankdbg.investigations.stops.break_places import BreakRequest
from rankdbg.selection import format_ranks
from rankdbg.types import Rank, V
from rankdbg.wire.answers import BreakPlace, BreakReport, BreakReports, ClearedBreaks

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart


@dataclass(frozen=True, repr=False)
class BreakAnswers(RankAnswers[V]):
    """`all_ranks`: all ranks of the job, among which ranks are named."""

    @abstractmethod
    def lines(self, value: V) -> list[str]:
        """What one rank says, as sentences."""

    @property
    def good(self) -> bool:
        """Whether any rank did what was asked of it."""
        return bool(self.answered)

    def groups(self) -> list[tuple[str, Sequence[Rank]]]:
        """Each sentence, and the ranks of which it is true."""
        sentences = ((a.rank, line) for a in self.answered for line in self.lines(a.value))
        return cast("list[tuple[str, Sequence[Rank]]]", grouping.group_equal(sentences))

    def as_json(self) -> dict[str, Any]:
        groups = grouping.group_equal((a.rank, repr(a.value)) for a in self.answered)
        values: dict[Hashable, V] = {repr(a.value): a.value for a in self.answered}
        return {
            "groups": [
                {"ranks": format_ranks(members, self.all_ranks), **_json(values[key])}
                for key, members in groups
            ],
            "no_response": silent_json(self.no_response),
        }

    def summary(self) -> str:
        told = [f"{label(ranks, self.all_ranks)} {text}" for text, ranks in self.groups()]
        told += [f"{len(self.no_response)} without a response"] * bool(self.no_response)
        return "; ".join(told) or "no rank"

    def records(self) -> list[dict[str, Any]]:
        rows = [
            rank_record(answer.rank, says=line)
            for answer in self.answered
            for line in self.lines(answer.value)
        ]
        return rows + silent_records(self.no_response)

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Paragraph, Table, TableRow

        rows = [TableRow((label(ranks, self.all_ranks), text)) for text, ranks in self.groups()]
        texts = [f"{ranks}: {why}" for ranks, why in silent_lines(self.no_response, self.all_ranks)]
        return [Table(("ranks", "breaks"), rows), *map(Paragraph, texts)]


@dataclass(frozen=True, repr=False)
class BreakSet(BreakAnswers[BreakPlace]):
    place: BreakRequest

    @property
    def good(self) -> bool:
        return any(a.value.state in ("set", "waits") for a in self.answered)

    def lines(self, value: BreakPlace) -> list[str]:
        file, line = self.place.file, self.place.line
        files = ", ".join(value.files)
        if value.state == "no file":
            near = f"; there is {files}" if files else ""
            return [f"no file {file} in its code{near}"]
        if value.state == "no code":
            near = ", ".join(f"{name}:{at}" for name, at in (value.nearest or {}).items())
            return [f"no code at {file}:{line}; nearest line with code: {near or 'none'}"]
        found = ", ".join(f"{name}:{line}" for name in value.files)
        lines = [f"set at {found}"]
        if value.state == "waits":
            lines = [f"set at {found}, which is not loaded yet"]
        if value.missed:
            who = ", ".join(value.missed)
            lines.append(f"not yet in threads that were running before: {who}")
        return lines


@dataclass(frozen=True, repr=False)
class BreaksCleared(BreakAnswers[ClearedBreaks]):
    def lines(self, value: ClearedBreaks) -> list[str]:
        places = ", ".join(f"{file}:{line}" for file, line in value.cleared)
        return [f"cleared {places}" if places else "no such break is set"]


@dataclass(frozen=True, repr=False)
class BreakList(BreakAnswers[BreakReports]):
    def lines(self, value: BreakReports) -> list[str]:
        lines = [line for entry in value.breaks for line in _described(entry)]
        return lines or ["no breaks"]


def _described(entry: BreakReport) -> list[str]:
    words = [f"{entry.file}:{entry.line}"]
    words += [f"if {entry.condition}"] * bool(entry.condition)
    words += [f"log {entry.log!r}"] * bool(entry.log)
    words.append(f"({entry.hits} hits)" if entry.hits != 1 else "(1 hit)")
    lines = [" ".join(words)]
    if entry.error:
        lines.append(f"  failed: {entry.error}")
    name = os.path.basename(entry.file)
    return lines + [f"  {name}:{entry.line} {text}" for text in entry.logged]


def _json(value: Any) -> dict[str, Any]:
    """Without what a rank has not said."""
    return asdict(value, dict_factory=lambda pairs: {k: v for k, v in pairs if v is not None})
