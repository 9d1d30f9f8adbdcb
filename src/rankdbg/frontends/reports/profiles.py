"""A profile of many ranks as a table: where time or memory goes, and who differs."""

from __future__ import annotations

import statistics

from rankdbg.frontends.reports.profile_phases import print_phase_table
from rankdbg.frontends.reports.ranks import marked, print_silent
from rankdbg.frontends.terminal import Terminal, cut
from rankdbg.investigations.profiles import profile_files
from rankdbg.investigations.profiles.job_profiles import JobProfile, percent
from rankdbg.investigations.profiles.profiling import ENDINGS
from rankdbg.investigations.rank_labels import label
from rankdbg.profiles.comparing import ProfileRow
from rankdbg.text.amounts import in_bytes
from rankdbg.types import Rank

ROWS, FEWEST = 12, 5
# Places that take less of every rank are not worth a line.
LEAST = 0.005
MORE = 3
_MORE_OF = "  more of "
_WHAT = {
    profile_files.FLAME: "for a browser; + where a rank has more than others",
    profile_files.SPEEDSCOPE: "for https://www.speedscope.app",
    profile_files.TRACE: "for https://ui.perfetto.dev: all ranks on one time line",
}
# Files of single ranks, by what they hold, that other programs show.
_OTHERS = {
    "snapshot": "for https://pytorch.org/memory_viz",
    "memray": "for memray flamegraph, memray tree, memray summary",
}


def print_profile(terminal: Terminal, profile: JobProfile) -> None:
    if profile.profiles:
        terminal.print(profile.title())
        _print_slowest(terminal, profile)
        _print_cost(terminal, profile)
        terminal.print()
        if profile.phases:
            print_phase_table(terminal, profile.phases, percent)
            terminal.print()
        _print_rows(terminal, profile)
    elif profile.kind == "nsys" and profile.files:
        terminal.print(profile.title())
    _print_notes(terminal, profile)
    print_silent(terminal, profile.recorded.no_response, profile.all_ranks)
    if profile.files:
        _print_files(terminal, profile)


def _print_slowest(terminal: Terminal, profile: JobProfile) -> None:
    slow = profile.slowest
    if slow is None:
        return
    who = terminal.bold(f"rank {profile.whose([slow.index])}")
    others = "the others" if len(profile.profiles) > 2 else "the other"
    terminal.print(f"{who} {profile.slowest_text()}")
    for row in slow.more[:MORE]:
        share = percent(row.shares[slow.index])
        usual = percent(row.shares[slow.index] - row.beyond(slow.index))
        figures = f": {share}, {others} {usual}"
        room = terminal.width - len(_MORE_OF) - len(figures)
        terminal.print(f"{_MORE_OF}{_place(profile, row, room)}{figures}")


def _print_cost(terminal: Terminal, profile: JobProfile) -> None:
    stopped = profile.recorded.stopped.values()
    if stopped:
        least, most = (f"{100 * share:.0f} %" for share in (min(stopped), max(stopped)))
        them = "them" if len(profile.profiles) > 1 else "it"
        span = most if least == most else f"{least} to {most}"
        terminal.print(f"--native has stopped {them} for about {span} of the time")


def _print_rows(terminal: Terminal, profile: JobProfile) -> None:
    shown = [row for row in profile.rows if max(row.shares) >= LEAST][:ROWS]
    shown = shown if len(shown) >= FEWEST else profile.rows[:FEWEST]
    cells = [_heading(profile), *(_cells(profile, row) for row in shown)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for index, line in enumerate(cells):
        text = "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))
        if index == 0:
            terminal.print(f"{text}  WHERE")
            continue
        row = shown[index - 1]
        odd = "" if profile.diff or not row.far() else profile.whose(row.far())
        mark = f"odd: {odd}" if odd else ""
        room = terminal.width - len(text) - 2 - (len(mark) + 6 if mark else 0)
        terminal.print(marked(terminal, f"{text}  {_place(profile, row, room)}", mark))
    if len(shown) < len(profile.rows):
        more = len(profile.rows) - len(shown)
        terminal.print(f"and {more} more place{'s' if more > 1 else ''}")


def _heading(profile: JobProfile) -> list[str]:
    if profile.diff:
        return [f"{profile.whose(side)}" for side in profile.diff] + ["MORE"]
    alone = "HELD" if profile.kind == "memory" else "SHARE"
    return ["MEAN", "LEAST", "MOST", "OF"] if len(profile.profiles) > 1 else [alone]


def _cells(profile: JobProfile, row: ProfileRow) -> list[str]:
    values = _values(profile, row)
    amount = in_bytes if profile.kind == "memory" else percent
    if profile.diff:
        first, second = (statistics.fmean(values[i] for i in side) for side in profile.diff)
        more = second - first
        return [amount(first), amount(second), ("+" if more >= 0 else "-") + amount(abs(more))]
    if len(values) == 1:
        return [amount(values[0])]
    most = max(range(len(values)), key=values.__getitem__)
    mean = statistics.fmean(values)
    return [amount(mean), amount(min(values)), amount(values[most]), profile.whose([most])]


def _values(profile: JobProfile, row: ProfileRow) -> list[float]:
    if profile.kind != "memory":
        return list(row.shares)
    return [s * p.whole for s, p in zip(row.shares, profile.profiles, strict=True)]


def _print_notes(terminal: Terminal, profile: JobProfile) -> None:
    notes: dict[str, list[Rank]] = {}
    for rank, _ in profile.by_rank():
        for note in profile.recorded.notes.get(rank.process, ()):
            notes.setdefault(note, []).append(rank)
    for note, ranks in notes.items():
        who = f"rank{'s' if len(ranks) > 1 else ''} {label(ranks, profile.all_ranks)}"
        terminal.print(f"note: {who}: {note}")


def _print_files(terminal: Terminal, profile: JobProfile) -> None:
    terminal.print()
    terminal.print(f"{profile.folder}/")
    told = {name: _WHAT.get(name, "") for name in profile.files} | _for_others(profile)
    width = max(map(len, told))
    for name, what in told.items():
        terminal.print(f"  {name:{width}}  {what}".rstrip())
    clocks = profile.recorded.clocks.values()
    if profile_files.TRACE in profile.files and len(clocks) > 1:
        ahead = max(abs(clock.ahead) for clock in clocks) * 1000
        error = max(clock.error for clock in clocks) * 1000
        terminal.print(
            f"clocks of nodes were up to {ahead:.1f} ms off; set right to {error:.1f} ms"
        )


def _for_others(profile: JobProfile) -> dict[str, str]:
    """What programs of others show in more detail."""
    there = {content for files in profile.recorded.files.values() for content in files}
    return {f"ranks/*.{ENDINGS[name]}": what for name, what in _OTHERS.items() if name in there}


def _place(profile: JobProfile, row: ProfileRow, room: int) -> str:
    where, phase = profile.place(row)
    return cut(where, max(20, room - len(phase))) + phase
