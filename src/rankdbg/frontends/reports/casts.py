"""What came back from a command to many ranks: equal outputs once, and who is still away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankdbg import grouping
from rankdbg.frontends.reports.ranks import Paths, frame_json, label, print_silent, silent_json
from rankdbg.frontends.terminal import Terminal
from rankdbg.selection import format_ranks
from rankdbg.types import Answer, Frame, Rank, Silence

WITHOUT_OUTPUT = {"ended": "goes on", "cancelled": "was about to pause, and will not"}


class CastReport:
    def __init__(self, answers: Sequence[Answer | Silence], everybody: Sequence[Rank]) -> None:
        self.everybody = everybody
        self.silent = [silence for silence in answers if isinstance(silence, Silence)]
        came = [answer for answer in answers if isinstance(answer, Answer)]
        self.running = [a for a in came if a.value["state"] == "running"]
        self.not_stopped = [a.rank for a in came if a.value["state"] == "none"]
        self.answered = [a for a in came if a.value["state"] in ("stopped", *WITHOUT_OUTPUT)]
        outputs = ((a.rank, (a.value["output"], a.value["state"])) for a in self.answered)
        self.groups: list[Any] = grouping.group_equal(outputs)

    def as_json(self) -> dict[str, Any]:
        return {
            "groups": [
                {
                    "ranks": format_ranks(members, self.everybody),
                    "count": len(members),
                    "output": output,
                    "state": state,
                }
                for (output, state), members in self.groups
            ],
            "running": [
                {
                    "rank": answer.rank.number,
                    "pid": answer.rank.pid,
                    "where": frame_json(_where(answer)),
                    "busy": bool(answer.value.get("busy")),
                }
                for answer in self.running
            ],
            "not_stopped": format_ranks(self.not_stopped, self.everybody),
            "silent": silent_json(self.silent),
        }

    def print(self, terminal: Terminal) -> None:
        for (output, state), members in self.groups:
            who = label(members, self.everybody)
            text = output.rstrip("\n") or WITHOUT_OUTPUT.get(state, "(no output)")
            indent = " " * (len(who) + 2)
            first, *rest = text.split("\n")
            terminal.print(f"{terminal.bold(who)}  {first}")
            for line in rest:
                terminal.print(f"{indent}{line}")
        places = Paths(where.file for a in self.running if (where := _where(a)))
        still: dict[str, list[Rank]] = {}
        for answer in self.running:
            where = _where(answer)
            text = f"still running: {places.text(where)}" if where else "still running"
            if answer.value.get("busy"):
                text = "busy with the command of another client"
            still.setdefault(text, []).append(answer.rank)
        for text, ranks in still.items():
            terminal.print(f"{terminal.bold(label(ranks, self.everybody))}  {text}")
        if self.not_stopped:
            who = label(self.not_stopped, self.everybody)
            terminal.print(terminal.dim(f"not stopped: {who}"))
        print_silent(terminal, self.silent, self.everybody)


def _where(answer: Answer) -> Frame | None:
    where = answer.value.get("where")
    return Frame(*where) if where else None
