"""Whether a job and its nodes are there, as text."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.frontends.reports.rows import print_row
from rankdbg.frontends.terminal import Terminal, cut
from rankdbg.investigations.logs.job_files import JobState
from rankdbg.logs.places import RAY
from rankdbg.selection import format_ranks
from rankdbg.text.amounts import counted
from rankdbg.types import Rank


def print_job_state(
    terminal: Terminal, state: JobState, gone: Sequence[Rank], missing: Sequence[Rank]
) -> None:
    answering = state.nodes - len(state.silent_nodes)
    nodes = f"{answering} of {counted(state.nodes, 'node')} answer"
    print_row(terminal, "cluster", nodes + "s" * (state.nodes == 1))
    for node, reason in state.silent_nodes.items():
        why = reason.removeprefix(f"{node}: ")
        print_row(terminal, "", f"{terminal.red(node)}: {why}")
    print_row(terminal, "job", _job(state, gone, missing))
    for note in (*state.notes, *state.hints):
        print_row(terminal, "", note)


def _job(state: JobState, gone: Sequence[Rank], missing: Sequence[Rank]) -> str:
    if not state.running:
        if state.job == RAY:
            return "none runs; what Ray itself has written is read"
        if state.silent_nodes:
            return f"{state.job} does not run on a node that answers; what it has left is read"
        return f"{state.job} does not run any more; what it has left is read"
    there, known = len(state.ranks) - len(gone), len(state.ranks) + len(missing)
    ranks = f"{there} of {counted(known, 'rank')} run" + "s" * (known == 1)
    numbered = [rank for rank in gone if rank.number is not None]
    parts = [f"{state.job}: {ranks}"]
    for title, those in (("gone", numbered), ("missing", missing)):
        if those:
            parts.append(f"{title}: {cut(format_ranks(those, state.ranks), 40)}")
    return ", ".join(parts)
