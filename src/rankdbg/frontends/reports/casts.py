"""What came back from a command to many ranks, as text."""

from __future__ import annotations

from rankdbg.frontends.reports.ranks import print_silent
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.rank_labels import label
from rankdbg.investigations.stops.casts import CastOutputs, shown_output


def print_cast(terminal: Terminal, outputs: CastOutputs) -> None:
    all_ranks = outputs.all_ranks
    for group, members in outputs.groups:
        who = label(members, all_ranks)
        indent = " " * (len(who) + 2)
        first, *rest = shown_output(*group).split("\n")
        terminal.print(f"{terminal.bold(who)}  {first}")
        for line in rest:
            terminal.print(f"{indent}{line}")
    for text, ranks in outputs.still_running():
        terminal.print(f"{terminal.bold(label(ranks, all_ranks))}  {text}")
    if outputs.not_stopped:
        who = label(outputs.not_stopped, all_ranks)
        terminal.print(terminal.dim(f"not stopped: {who}"))
    print_silent(terminal, outputs.no_response, all_ranks)
