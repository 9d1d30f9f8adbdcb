"""Stops and pauses of many ranks as text, equal ones on one line."""

from __future__ import annotations

from rankdbg.frontends.reports.ranks import print_silent
from rankdbg.frontends.terminal import Terminal, cut, cut_path
from rankdbg.investigations.rank_labels import label
from rankdbg.investigations.stops.stopped_ranks import OperationLimits, PausedRanks, RankStops
from rankdbg.text.escapes import visible_line

_THREAD = 16  # characters of a thread's name, where there is little room
_PLACE = 20  # characters of a place that tell it from others


def print_stops(terminal: Terminal, found: RankStops) -> None:
    if not found.stops:
        terminal.print(found.none_stopped())
    else:
        _print_table(terminal, found)
    print_limits(terminal, found.limits)
    print_silent(terminal, found.no_response, found.all_ranks)


def print_limits(terminal: Terminal, limits: OperationLimits) -> None:
    for warning in limits.warnings():
        terminal.print(f"{terminal.red('warning:')} {warning}")


def print_pauses(terminal: Terminal, paused: PausedRanks) -> None:
    for text, members in paused.groups():
        terminal.print(f"{terminal.bold(label(members, paused.all_ranks))}  {text}")
    print_silent(terminal, paused.no_response, paused.all_ranks)


def _print_table(terminal: Terminal, found: RankStops) -> None:
    rows = [("RANKS", "STOP", "THREAD", "WHERE", "WHY")]
    for told, members in found.groups():
        who = label(members, found.all_ranks)
        kind, thread, place, why = map(visible_line, told)
        rows.append((who, kind, thread, place, why))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    if not any(row[2] for row in rows[1:]):
        widths[2] = 0
    width = max(80, terminal.width)
    if sum(widths) + 8 > width:
        widths[2] = min(widths[2], _THREAD)
    # Why it stopped says more than the beginning of a long place.
    reason = min(max(len(row[4]) for row in rows), width // 3)
    taken = sum(w + 2 for w in widths[:3] if w)
    left = width - taken - 2
    # Where threads with long names leave no room beside a place, it goes below.
    below = reason > 0 and left - reason < _PLACE
    widths[3] = min(widths[3], max(_PLACE, left - (0 if below else reason)))
    for number, cells in enumerate(rows):
        thread, place = cut(cells[2], widths[2]), cut_path(cells[3], widths[3])
        cells = (*cells[:2], thread, place, cells[4])
        shown = [f"{cell:{w}}" for cell, w in zip(cells, widths, strict=False) if w]
        shown += [] if below else [cells[4]]
        line = cut("  ".join(shown).rstrip(), width)
        terminal.print(terminal.dim(line) if number == 0 else line)
        if below and number and cells[4]:
            terminal.print("  " + cut(cells[4], width - 2))
