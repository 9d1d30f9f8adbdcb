"""What many ranks answered to one expression: equal answers once, numbers with their spread."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rankdbg import grouping
from rankdbg.investigations.rank_labels import label, process_json, silent_json, silent_lines
from rankdbg.investigations.results import RankAnswers, rank_record, silent_records
from rankdbg.process import masking
from rankdbg.selection import format_ranks
from rankdbg.text.amounts import counted
from rankdbg.types import Answer, Rank
from rankdbg.wire.answers import Described

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart


@dataclass(frozen=True, repr=False)
class Answers(RankAnswers[Described]):
    """`all_ranks`: all ranks of the job, among which ranks are named."""

    expression: str = ""

    @cached_property
    def groups(self) -> list[tuple[Described, Sequence[Rank]]]:
        values = {_key(answer.value): answer.value for answer in reversed(self.answered)}
        groups = grouping.group_equal((a.rank, _key(a.value)) for a in self.answered)
        return [(values[key], members) for key, members in groups]

    @cached_property
    def spread(self) -> grouping.Spread[Rank] | None:
        """Only where different numbers came back."""
        told = [(answer.rank, _number(answer.value)) for answer in self.answered]
        numbers = [(rank, number) for rank, number in told if number is not None]
        if len({str(number) for _, number in numbers}) < 2:
            return None
        return grouping.spread(numbers)

    @cached_property
    def odd(self) -> list[bool]:
        """Of each group whether it is odd."""
        marks = grouping.odd_ones_out([len(members) for _, members in self.groups])
        far = {rank.process for rank, _ in self.spread.outliers} if self.spread else set()
        return [
            is_odd or _is_wild(value) or all(rank.process in far for rank in members)
            for is_odd, (value, members) in zip(marks, self.groups, strict=True)
        ]

    def masked(self) -> Answers:
        """Without secrets, for all that is no terminal of the user's: what looks at it next is not
        known."""
        answers = [
            replace(a, value=_masked(self.expression, a.value)) if isinstance(a, Answer) else a
            for a in self.answers
        ]
        return replace(self, answers=tuple(answers))

    def as_json(self) -> dict[str, Any]:
        return self.masked()._document()

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "expression": self.expression,
            "groups": [
                {
                    "ranks": format_ranks(members, self.all_ranks),
                    "count": len(members),
                    "value": value.text,
                    "odd": is_odd,
                    **{name: item for name, item in value.as_json().items() if name != "text"},
                }
                for (value, members), is_odd in zip(self.groups, self.odd, strict=True)
            ],
            "no_response": silent_json(self.no_response),
        }
        if self.spread:
            document["spread"] = {
                "count": self.spread.count,
                "min": self.spread.minimum,
                "median": self.spread.median,
                "max": self.spread.maximum,
                "outliers": [
                    {**process_json(rank), "value": value} for rank, value in self.spread.outliers
                ],
            }
        return document

    def summary(self) -> str:
        ranks, groups = len(self.answered), len(self.groups)
        text = f"{self.expression}: {counted(ranks, 'rank')}, "
        text += f"{groups} different value{'s' * (groups != 1)}"
        odd = [
            r
            for (_, some), is_odd in zip(self.groups, self.odd, strict=True)
            if is_odd
            for r in some
        ]
        text += f", odd: {label(odd, self.all_ranks)}" if odd else ""
        return text + (f", no response: {len(self.no_response)}" if self.no_response else "")

    def spread_line(self) -> str:
        """`` where a spread says no more than the values do."""
        spread = self.spread
        if spread is None or spread.count < 3 or spread.minimum == spread.maximum:
            return ""
        figures = f"min {spread.minimum:g}  median {spread.median:g}  max {spread.maximum:g}"
        return f"spread over {spread.count} ranks: {figures}"

    def records(self) -> list[dict[str, Any]]:
        odd = {
            rank.process
            for (_, members), is_odd in zip(self.groups, self.odd, strict=True)
            for rank in members
            if is_odd
        }
        rows = [
            rank_record(
                answer.rank,
                value=answer.value.text if (n := _number(answer.value)) is None else n,
                type=answer.value.type or "",
                odd=answer.rank.process in odd,
            )
            for answer in self.answered
        ]
        return rows + silent_records(self.no_response)

    def _parts(self) -> list[HtmlPart]:
        """A notebook is a file: masked."""
        return self.masked()._table()

    def _table(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import ODD, Paragraph, Table, TableRow

        rows = [
            TableRow((label(members, self.all_ranks), shown_value(value)), ODD if is_odd else "")
            for (value, members), is_odd in zip(self.groups, self.odd, strict=True)
        ]
        rows.sort(key=lambda row: bool(row.mark))
        silent = [
            f"{ranks}: {why}" for ranks, why in silent_lines(self.no_response, self.all_ranks)
        ]
        texts = [self.spread_line(), *silent]
        return [Table(("ranks", self.expression), rows), *map(Paragraph, texts)]


def shown_value(value: Described) -> str:
    if value.cut:
        return f"({value.length} characters) {value.text}"
    if value.dtype and value.kind == "number":
        return f"{value.text}  {value.dtype} {value.device or ''}".rstrip()
    return value.text


def _masked(expression: str, value: Described) -> Described:
    text = masking.mask_value(expression, value.text)
    if text == value.text:
        return value
    # Length, number and digest would reveal something too.
    return Described("text", text, type="")


def _key(value: Described) -> Hashable:
    """What makes two answers the same.

    The number of a device is left out: each rank has its own GPU, and cuda:0 to cuda:7
    are not eight different answers.
    """
    device = (value.device or "").partition(":")[0]
    if value.kind == "array":
        figures = map(str, (value.min, value.mean, value.max, value.nan))
        return ("array", value.shape, value.dtype, device, *figures)
    return (value.kind, value.text, value.length, value.digest, device)


def _number(value: Described) -> float | None:
    return value.number if value.kind == "number" else None


def _is_wild(value: Described) -> bool:
    """nan and inf stand out, wherever they are."""
    figures = [value.number]
    if value.kind == "array":
        figures = [value.min, value.mean, value.max]
    wild = any(isinstance(figure, float) and not math.isfinite(figure) for figure in figures)
    return bool(value.nan) or wild
