"""A profile of many ranks as a table: where time or memory goes, and who differs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankdbg.amounts import in_bytes
from rankdbg.frontends import pictures
from rankdbg.frontends.profiling import ENDINGS, Recorded
from rankdbg.frontends.reports.ranks import (
    Paths,
    frame_json,
    label,
    marked,
    print_silent,
    silent_json,
)
from rankdbg.frontends.terminal import Terminal, cut
from rankdbg.profiles import comparing
from rankdbg.profiles.comparing import Row
from rankdbg.profiles.documents import Profile
from rankdbg.types import Rank

ROWS, FEWEST, ROWS_IN_JSON = 12, 5, 200
# Places that take less of every rank are not worth a line.
LEAST = 0.005
MORE = 3
# A trace lacks the collective that was under way when it began: in a few steps that is too much
# to say who waits least.
SHORTEST = 2.0
_MORE_OF = "  more of "
_WHAT = {
    pictures.FLAME: "for a browser; red where a rank has more than others",
    pictures.SPEEDSCOPE: "for https://www.speedscope.app",
    pictures.TRACE: "for https://ui.perfetto.dev: all ranks on one time line",
}
# Files of single ranks, by what they hold, that other programs show.
_OTHERS = {
    "snapshot": "for https://pytorch.org/memory_viz",
    "memray": "for memray flamegraph, memray tree, memray summary",
}


@dataclass
class ProfileReport:
    kind: str
    rate: int
    recorded: Recorded
    profiles: Sequence[Profile]
    everybody: Sequence[Rank]
    folder: Path
    files: Sequence[str]
    diff: tuple[Sequence[int], Sequence[int]] | None = None
    rows: list[Row] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = comparing.rows(self.profiles)
        if self.diff:
            self.rows = comparing.differing(self.rows, *self.diff)
        self.slowest = None
        # A rank of which nothing was recorded may have waited all the time, or never.
        traced = self.recorded.seconds >= SHORTEST and not self.recorded.idle
        if self.kind == "cpu" or (self.kind == "torch" and traced):
            self.slowest = comparing.find_slowest(self.rows, len(self.profiles))

    # --- JSON -------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        slow = self.slowest
        recorded = self.recorded
        return {
            "kind": self.kind,
            "seconds": round(recorded.seconds, 3),
            "rate": self.rate if self.kind == "cpu" else None,
            "cut_short": recorded.cut_short,
            "ranks": [
                pictures.summary(rank, profile, recorded) for rank, profile in self._by_rank()
            ],
            "rows": [self._row_json(row) for row in self.rows[:ROWS_IN_JSON]],
            "diff": [self._whose(side) for side in self.diff] if self.diff else None,
            "slowest": {
                "rank": self.profiles[slow.index].rank.number,
                "waits": round(slow.waits, 4),
                "others_wait": round(slow.others_wait, 4),
                "more": [self._row_json(row) for row in slow.more],
            }
            if slow
            else None,
            "clocks": {
                node: {"ahead": clock.ahead, "error": clock.error}
                for node, clock in recorded.clocks.items()
            },
            "files": [str(self.folder / name) for name in self.files],
            "silent": silent_json(recorded.silent),
        }

    def _by_rank(self) -> list[tuple[Rank, Profile | None]]:
        """Of nsys, only it can read what came home."""
        if self.kind == "nsys":
            return [(rank, None) for rank in self.recorded.ranks]
        return [(profile.rank, profile) for profile in self.profiles]

    def _row_json(self, row: Row) -> dict[str, Any]:
        return {
            "where": frame_json(row.frame),
            "calls": row.calls,
            "mean": round(row.mean, 4),
            "median": round(row.median, 4),
            "shares": [round(share, 4) for share in row.shares],  # in the order of `ranks`
            "waits": row.waits,
            "odd": self._whose(row.far()) if row.far() else "",
        }

    # --- text -------------------------------------------------------------------------

    def print(self, terminal: Terminal) -> None:
        if self.profiles:
            terminal.print(self._title())
            self._print_slowest(terminal)
            self._print_cost(terminal)
            terminal.print()
            self._print_rows(terminal)
        elif self.kind == "nsys" and self.files:
            terminal.print(self._title())
        self._print_notes(terminal)
        print_silent(terminal, self.recorded.silent, self.everybody)
        if self.files:
            self._print_files(terminal)

    def _title(self) -> str:
        ranks = [rank for rank, _ in self._by_rank()]
        who = label(ranks, self.everybody)
        text = f"rank{'s' if len(ranks) > 1 else ''} {who}: {self.recorded.seconds:.1f} s"
        if self.kind == "cpu":
            taken = min(profile.whole for profile in self.profiles)
            text += f" of the main thread, {taken:.0f} samples"
            text += " or more of each" if len(ranks) > 1 else ""
        if self.kind == "nsys":
            text += ", captured by nsys"
        if self.kind == "torch":
            text += " of operators and kernels, by the time that each took itself"
        if self.kind == "memory":
            held = [profile.whole for profile in self.profiles]
            bounds = dict.fromkeys([in_bytes(min(held)), in_bytes(max(held))])
            text += f", allocations held: {' to '.join(bounds)}"
            text += " a rank" if len(ranks) > 1 else ""
        return text + (" (ended early)" if self.recorded.cut_short else "")

    def _print_slowest(self, terminal: Terminal) -> None:
        slow = self.slowest
        if slow is None:
            return
        who = terminal.bold(f"rank {self._whose([slow.index])}")
        others = "the others" if len(self.profiles) > 2 else "the other"
        terminal.print(
            f"{who} is the slowest: it waits {_percent(slow.waits)} of the time, "
            f"{others} {_percent(slow.others_wait)}"
        )
        paths = self._paths()
        for row in slow.more[:MORE]:
            share = _percent(row.shares[slow.index])
            usual = _percent(row.shares[slow.index] - row.beyond(slow.index))
            figures = f": {share}, {others} {usual}"
            room = terminal.width - len(_MORE_OF) - len(figures)
            terminal.print(f"{_MORE_OF}{cut(_place(row, paths), room)}{figures}")

    def _print_cost(self, terminal: Terminal) -> None:
        stopped = self.recorded.stopped.values()
        if stopped:
            least, most = (f"{100 * share:.0f} %" for share in (min(stopped), max(stopped)))
            them = "them" if len(self.profiles) > 1 else "it"
            span = most if least == most else f"{least} to {most}"
            terminal.print(f"--native has stopped {them} for about {span} of the time")

    def _print_rows(self, terminal: Terminal) -> None:
        shown = [row for row in self.rows if max(row.shares) >= LEAST][:ROWS]
        shown = shown if len(shown) >= FEWEST else self.rows[:FEWEST]
        paths = self._paths()
        cells = [self._heading(), *(self._cells(row) for row in shown)]
        widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
        for index, line in enumerate(cells):
            text = "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))
            if index == 0:
                terminal.print(f"{text}  WHERE")
                continue
            row = shown[index - 1]
            odd = "" if self.diff or not row.far() else self._whose(row.far())
            mark = f"odd: {odd}" if odd else ""
            room = terminal.width - len(text) - 2 - (len(mark) + 6 if mark else 0)
            terminal.print(marked(terminal, f"{text}  {cut(_place(row, paths), room)}", mark))
        if len(shown) < len(self.rows):
            more = len(self.rows) - len(shown)
            terminal.print(f"and {more} more place{'s' if more > 1 else ''}")

    def _heading(self) -> list[str]:
        if self.diff:
            return [f"{self._whose(side)}" for side in self.diff] + ["MORE"]
        alone = "HELD" if self.kind == "memory" else "SHARE"
        return ["MEAN", "LEAST", "MOST", "OF"] if len(self.profiles) > 1 else [alone]

    def _cells(self, row: Row) -> list[str]:
        values = self._values(row)
        amount = in_bytes if self.kind == "memory" else _percent
        if self.diff:
            first, second = (statistics.fmean(values[i] for i in side) for side in self.diff)
            more = second - first
            return [amount(first), amount(second), ("+" if more >= 0 else "-") + amount(abs(more))]
        if len(values) == 1:
            return [amount(values[0])]
        most = max(range(len(values)), key=values.__getitem__)
        mean = statistics.fmean(values)
        return [amount(mean), amount(min(values)), amount(values[most]), self._whose([most])]

    def _values(self, row: Row) -> list[float]:
        if self.kind != "memory":
            return list(row.shares)
        return [s * p.whole for s, p in zip(row.shares, self.profiles, strict=True)]

    def _print_notes(self, terminal: Terminal) -> None:
        notes: dict[str, list[Rank]] = {}
        for rank, _ in self._by_rank():
            for note in self.recorded.notes.get(rank.process, ()):
                notes.setdefault(note, []).append(rank)
        for note, ranks in notes.items():
            who = f"rank{'s' if len(ranks) > 1 else ''} {label(ranks, self.everybody)}"
            terminal.print(f"note: {who}: {note}")

    def _print_files(self, terminal: Terminal) -> None:
        terminal.print()
        terminal.print(f"{self.folder}/")
        told = {name: _WHAT.get(name, "") for name in self.files} | self._for_others()
        width = max(map(len, told))
        for name, what in told.items():
            terminal.print(f"  {name:{width}}  {what}".rstrip())
        clocks = self.recorded.clocks.values()
        if pictures.TRACE in self.files and len(clocks) > 1:
            ahead = max(abs(clock.ahead) for clock in clocks) * 1000
            error = max(clock.error for clock in clocks) * 1000
            terminal.print(
                f"clocks of nodes were up to {ahead:.1f} ms off; set right to {error:.1f} ms"
            )

    def _for_others(self) -> dict[str, str]:
        """What programs of others show in more detail."""
        there = {content for files in self.recorded.files.values() for content in files}
        return {f"ranks/*.{ENDINGS[name]}": what for name, what in _OTHERS.items() if name in there}

    def _whose(self, indices: Sequence[int]) -> str:
        return label([self.profiles[index].rank for index in indices], self.everybody)

    def _paths(self) -> Paths:
        return Paths(row.frame.file for row in self.rows)


def _place(row: Row, paths: Paths) -> str:
    called = f" > {row.calls}" if row.calls else ""
    return f"{paths.text(row.frame)}{called}"


def _percent(share: float) -> str:
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.0f} %" if share >= 0.0995 or share == 0 else f"{100 * share:.1f} %"
