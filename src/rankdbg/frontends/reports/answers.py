"""What many ranks answered: equal answers once, numbers with their spread, the odd last."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from rankdbg import grouping
from rankdbg.frontends.reports.ranks import label, marked, print_silent, silent_json
from rankdbg.frontends.terminal import Terminal, cut
from rankdbg.selection import format_ranks
from rankdbg.types import Answer, Rank, Silence

Value = dict[str, Any]

MOST_ROWS = 16


class AnswerReport:
    def __init__(self, answers: Sequence[Answer | Silence], everybody: Sequence[Rank]) -> None:
        self.everybody = everybody
        self.answered = [answer for answer in answers if isinstance(answer, Answer)]
        self.silent = [silence for silence in answers if isinstance(silence, Silence)]
        values = {_key(answer.value): answer.value for answer in reversed(self.answered)}
        groups = grouping.group_equal((a.rank, _key(a.value)) for a in self.answered)
        self.groups = [(values[key], members) for key, members in groups]
        self.spread = self._spread()
        self.odd = self._odd()

    def _spread(self) -> grouping.Spread[Rank] | None:
        """Only where different numbers came back."""
        numbers = [(a.rank, a.value["number"]) for a in self.answered if _is_number(a.value)]
        if len({str(number) for _, number in numbers}) < 2:
            return None
        return grouping.spread(numbers)

    def _odd(self) -> list[bool]:
        marks = grouping.odd_ones_out([len(members) for _, members in self.groups])
        far = {rank.process for rank, _ in self.spread.outliers} if self.spread else set()
        return [
            is_odd or _is_wild(value) or all(rank.process in far for rank in members)
            for is_odd, (value, members) in zip(marks, self.groups, strict=True)
        ]

    # --- for programs -----------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "groups": [
                {
                    "ranks": format_ranks(members, self.everybody),
                    "count": len(members),
                    "value": value["text"],
                    "odd": is_odd,
                    **{name: item for name, item in value.items() if name != "text"},
                }
                for (value, members), is_odd in zip(self.groups, self.odd, strict=True)
            ],
            "silent": silent_json(self.silent),
        }
        if self.spread:
            document["spread"] = {
                "count": self.spread.count,
                "min": self.spread.minimum,
                "median": self.spread.median,
                "max": self.spread.maximum,
                "outliers": [
                    {"rank": rank.number, "value": value} for rank, value in self.spread.outliers
                ],
            }
        return document

    # --- for people -------------------------------------------------------------------

    def print(self, terminal: Terminal, *, every_value: bool) -> None:
        """The majority first, the odd ones last and marked."""
        rows = list(zip(self.groups, self.odd, strict=True))
        rows.sort(key=lambda row: row[1])
        left_out = 0 if every_value else max(0, len(rows) - MOST_ROWS)
        if left_out:
            # Of many different values the ordinary ones are left out, not the odd.
            rows = rows[: max(3, MOST_ROWS - sum(self.odd))] + [row for row in rows if row[1]]
            left_out = len(self.groups) - len(rows)
        labels = [label(members, self.everybody) for (_, members), _ in rows]
        width = max((len(text) for text in labels), default=0)
        for ((value, _), is_odd), text in zip(rows, labels, strict=True):
            shown = cut(_shown(value), max(20, terminal.width - width - 22))
            line = f"{terminal.bold(f'{text:{width}}')}  {shown}"
            terminal.print(marked(terminal, line, "odd one out" if is_odd else ""))
        if left_out > 0:
            terminal.print(
                terminal.dim(f"and {left_out} more different values; --values shows them")
            )
        self._print_spread(terminal)
        print_silent(terminal, self.silent, self.everybody)

    def _print_spread(self, terminal: Terminal) -> None:
        spread = self.spread
        if spread is None or spread.count < 3 or spread.minimum == spread.maximum:
            return
        figures = f"min {spread.minimum:g}  median {spread.median:g}  max {spread.maximum:g}"
        terminal.print(terminal.dim(f"spread over {spread.count} ranks: {figures}"))


def _key(value: Value) -> Hashable:
    """What makes two answers the same.

    The number of a device is left out: each rank has its own GPU, and cuda:0 to cuda:7
    are not eight different answers.
    """
    device = str(value.get("device", "")).partition(":")[0]
    if value.get("kind") == "array":
        figures = [str(value.get(name)) for name in ("min", "mean", "max", "nan")]
        return ("array", tuple(value["shape"]), value["dtype"], device, *figures)
    return (value.get("kind"), value["text"], value.get("length"), value.get("digest"), device)


def _is_number(value: Value) -> bool:
    return value.get("kind") == "number" and isinstance(value.get("number"), (int, float))


def _is_wild(value: Value) -> bool:
    """nan and inf stand out, wherever they are."""
    if value.get("kind") == "array":
        figures = [value.get(name) for name in ("min", "mean", "max")]
        wild = any(isinstance(f, float) and not math.isfinite(f) for f in figures)
        return bool(value.get("nan")) or wild
    return _is_number(value) and not math.isfinite(value["number"])


def _shown(value: Value) -> str:
    text = str(value["text"])
    if value.get("cut"):
        return f"({value['length']} characters) {text}"
    if value.get("dtype") and value.get("kind") == "number":
        return f"{text}  {value['dtype']} {value.get('device', '')}".rstrip()
    return text
