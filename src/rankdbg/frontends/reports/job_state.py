"""Whether a job and its nodes are there, as text and as JSON."""

from __future__ import annotations

from typing import Any

from rankdbg.frontends.log_sources import JobState
from rankdbg.frontends.reports.rows import print_row
from rankdbg.frontends.terminal import Terminal, cut
from rankdbg.logs.places import RAY
from rankdbg.selection import format_numbers


class JobStateReport:
    def __init__(self, state: JobState) -> None:
        self._state = state
        self._gone = [rank for rank in state.ranks if rank.state in ("gone", "zombie")]

    def as_json(self) -> dict[str, Any]:
        state = self._state
        numbers = [rank.number for rank in self._gone if rank.number is not None]
        return {
            "job": state.job,
            "running": state.running,
            "ranks": len(state.ranks),
            "gone": format_numbers(numbers),
            "nodes": state.nodes,
            "silent_nodes": state.silent_nodes,
            "notes": state.notes,
        }

    def print(self, terminal: Terminal) -> None:
        state = self._state
        answering = state.nodes - len(state.silent_nodes)
        nodes = f"{answering} of {state.nodes} node{'s' if state.nodes != 1 else ''} answer"
        print_row(terminal, "cluster", nodes + "s" * (state.nodes == 1))
        for node, reason in state.silent_nodes.items():
            print_row(terminal, "", f"{terminal.red(node)}: {reason}")
        print_row(terminal, "job", self._job())
        for note in state.notes:
            print_row(terminal, "", note)

    def _job(self) -> str:
        state = self._state
        if not state.running:
            if state.job == RAY:
                return "none runs; what Ray itself has written is read"
            return f"{state.job} does not run any more; what it has left is read"
        there = len(state.ranks) - len(self._gone)
        ranks = f"{there} of {len(state.ranks)} rank{'s' if len(state.ranks) != 1 else ''} run"
        text = f"{state.job}: {ranks}" + "s" * (len(state.ranks) == 1)
        numbers = [rank.number for rank in self._gone if rank.number is not None]
        return text + (f", gone: {cut(format_numbers(numbers), 40)}" if numbers else "")
