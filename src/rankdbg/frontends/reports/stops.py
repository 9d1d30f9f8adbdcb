"""The stops of many ranks, equal ones on one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rankdbg import grouping
from rankdbg.frontends.reports.limits import LimitReport
from rankdbg.frontends.reports.ranks import Paths, frame_json, label, print_silent, silent_json
from rankdbg.frontends.terminal import Terminal, cut, cut_path
from rankdbg.types import Answer, Frame, Rank, Silence


class StopReport:
    def __init__(self, answers: Sequence[Answer | Silence], everybody: Sequence[Rank]) -> None:
        self.everybody = everybody
        self.silent = [silence for silence in answers if isinstance(silence, Silence)]
        self.stops: list[tuple[Rank, dict[str, Any]]] = [
            (answer.rank, stop)
            for answer in answers
            if isinstance(answer, Answer)
            for stop in answer.value["stops"]
        ]
        self.limits = LimitReport(answers, everybody)

    def as_json(self) -> dict[str, Any]:
        return {
            "stops": [
                {
                    "rank": rank.number,
                    "pid": rank.pid,
                    "host": rank.host,
                    "stop": stop["stop"],
                    "thread": stop["thread"],
                    "kind": stop["kind"],
                    "why": stop["why"],
                    "state": stop["state"],
                    "where": frame_json(_where(stop)),
                }
                for rank, stop in self.stops
            ],
            "in_flight": self.limits.as_json(),
            "silent": silent_json(self.silent),
        }

    def print(self, terminal: Terminal) -> None:
        if not self.stops:
            terminal.print("no rank is stopped")
        else:
            self._print_table(terminal)
        self.limits.print(terminal)
        print_silent(terminal, self.silent, self.everybody)

    def _print_table(self, terminal: Terminal) -> None:
        paths = Paths(where.file for _, stop in self.stops if (where := _where(stop)))

        def row(stop: dict[str, Any]) -> tuple[str, ...]:
            where = _where(stop)
            kind = stop["kind"] if stop["state"] == "stopped" else f"{stop['kind']} (running)"
            thread = "" if stop["main"] else stop["thread"]
            return kind, thread, paths.text(where) if where else "", stop["why"]

        groups = grouping.group_equal((rank, row(stop)) for rank, stop in self.stops)
        rows = [("RANKS", "STOP", "THREAD", "WHERE", "WHY")]
        for cells, members in groups:
            who = label(members, self.everybody)
            rows.append((who, *cast("tuple[str, str, str, str]", cells)))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        if not any(row[2] for row in rows[1:]):
            widths[2] = 0
        width = max(80, terminal.width)
        # Why it stopped says more than the beginning of a long place.
        why = min(max(len(row[4]) for row in rows), width // 3)
        taken = sum(w + 2 for w in widths[:3] if w)
        widths[3] = min(widths[3], max(20, width - taken - 2 - why))
        for number, cells in enumerate(rows):
            cells = (*cells[:3], cut_path(cells[3], widths[3]), cells[4])
            shown = [f"{cell:{w}}" for cell, w in zip(cells, widths, strict=False) if w]
            line = cut("  ".join([*shown, cells[4]]).rstrip(), width)
            terminal.print(terminal.dim(line) if number == 0 else line)


def _where(stop: dict[str, Any]) -> Frame | None:
    return Frame(*stop["where"]) if stop["where"] else None
