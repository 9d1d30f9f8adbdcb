"""Which ranks a pause has stopped, and where; which are in C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankdbg import grouping
from rankdbg.frontends.reports.ranks import Paths, frame_json, label, print_silent, silent_json
from rankdbg.frontends.terminal import Terminal
from rankdbg.types import Answer, Frame, Rank, Silence

WORDS = {
    "stopped": "stopped at {where}",
    "running": "in the debugger already, busy with a command at {where}",
    "blocked": "in C, at {where}: stops as soon as it comes back",
    "later": "at {where}: stops at its next endpoint (at once only on Python 3.12 or later)",
    "cancelled": "not stopped yet, and will not be",
    "none": "was not about to stop",
}


class PauseReport:
    def __init__(self, answers: Sequence[Answer | Silence], everybody: Sequence[Rank]) -> None:
        self.everybody = everybody
        self.silent = [silence for silence in answers if isinstance(silence, Silence)]
        self.answers = [answer for answer in answers if isinstance(answer, Answer)]

    def as_json(self) -> dict[str, Any]:
        return {
            "ranks": [
                {
                    "rank": answer.rank.number,
                    "pid": answer.rank.pid,
                    "state": answer.value["state"],
                    "where": frame_json(_where(answer)),
                }
                for answer in self.answers
            ],
            "silent": silent_json(self.silent),
        }

    def print(self, terminal: Terminal) -> None:
        paths = Paths(where.file for a in self.answers if (where := _where(a)))

        def sentence(answer: Answer) -> str:
            where = _where(answer)
            words = WORDS.get(answer.value["state"], "{where}")
            return words.format(where=paths.text(where) if where else "an unknown place")

        groups = grouping.group_equal((a.rank, sentence(a)) for a in self.answers)
        for text, members in groups:
            terminal.print(f"{terminal.bold(label(members, self.everybody))}  {text}")
        print_silent(terminal, self.silent, self.everybody)


def _where(answer: Answer) -> Frame | None:
    where = answer.value.get("where")
    return Frame(*where) if where else None
