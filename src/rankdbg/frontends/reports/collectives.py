"""Who is missing from which collective, as text: the sentence first, then the groups."""

from __future__ import annotations

import textwrap

from rankdbg.frontends.reports.ranks import marked, print_silent
from rankdbg.frontends.terminal import Terminal, cut
from rankdbg.investigations.collectives import collective_words as words
from rankdbg.investigations.collectives.collective_waits import CollectiveWaits
from rankdbg.investigations.collectives.world_waits import WorldWaits
from rankdbg.selection import format_ranks, quoted
from rankdbg.text.escapes import visible
from rankdbg.verdicts.collectives.process_groups import ProcessGroup

MOST_GROUPS = 4
MOST_MISMATCHES = 8


def print_collectives(terminal: Terminal, waits: CollectiveWaits, *, full: bool = False) -> None:
    if accusation := waits.accusation():
        terminal.print(terminal.red(accusation))
    for text in waits.sentences():
        for line in textwrap.wrap(visible(text), terminal.width):
            terminal.print(line)
    for text in waits.mismatch_texts()[: None if full else MOST_MISMATCHES]:
        for line in textwrap.wrap(visible(text), terminal.width, subsequent_indent="  "):
            terminal.print(line)
    _print_groups(terminal, waits, full)
    remarks = waits.remarks()
    if remarks or waits.no_response:
        terminal.print()
    for line in remarks:
        terminal.print(line)
    print_silent(terminal, waits.no_response, waits.all_ranks)
    if waits.culprits and waits.all_ranks:
        ranks = quoted(format_ranks(waits.culprits, waits.all_ranks))
        terminal.print(terminal.dim(f"hint: rankdbg stacks {ranks}"))


def _print_groups(terminal: Terminal, waits: CollectiveWaits, full: bool) -> None:
    groups = waits.groups()
    waited = {wait.group for w in waits.worlds for wait in w.findings.waits.values()}
    shown = groups if full else [each for each in groups if each[1] in waited][:MOST_GROUPS]
    if not waited and not full:
        shown = groups[:MOST_GROUPS]
    for world, group in shown:
        _print_group(terminal, world, group)
    if len(shown) < len(groups):
        left = len(groups) - len(shown)
        busy = sum(g in waited for _, g in groups) - sum(g in waited for _, g in shown)
        groups_left = f"{left} more group{'s' if left > 1 else ''}"
        note = f"and {groups_left} ({busy} with ranks that wait); --full shows them"
        terminal.print(terminal.dim(note))


def _print_group(terminal: Terminal, world: WorldWaits, group: ProcessGroup) -> None:
    terminal.print()
    members = world.names.named(group.members)
    terminal.print(cut(f"{words.group_name(group)}, {members}", terminal.width))
    rows = [row for row in world.rows(group) if world.shown & {*row.ranks}]
    labels = [world.names.numbers(row.ranks) for row in rows]
    width = max(map(len, labels), default=0)
    for row, label in zip(rows, labels, strict=True):
        room = max(20, terminal.width - width - 4 - (len(row.mark) + 6 if row.mark else 0))
        text = cut(world.row_text(row, group), room)
        line = f"  {terminal.bold(f'{label:{width}}')}  {text}"
        terminal.print(marked(terminal, line, row.mark))
