"""A profile of many ranks as a value: where time or memory goes, and who differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankdbg.investigations.profiles import profile_files
from rankdbg.investigations.profiles.profile_phases import PhaseTable, rounded
from rankdbg.investigations.profiles.profiling import RecordedFiles
from rankdbg.investigations.rank_labels import (
    Paths,
    frame_json,
    label,
    process_json,
    silent_json,
    silent_lines,
)
from rankdbg.investigations.results import Result, rank_record
from rankdbg.profiles import comparing
from rankdbg.profiles.comparing import ProfileRow, Slowest
from rankdbg.profiles.documents import Profile
from rankdbg.profiles.step_phases import PhaseOf
from rankdbg.text.amounts import counted, in_bytes
from rankdbg.types import Rank

if TYPE_CHECKING:
    from rankdbg.investigations.html import HtmlPart

ROWS_IN_JSON = 200
ROWS_IN_NOTEBOOKS = 20
# A trace lacks the collective that was under way when it began: in a few steps that is too much
# to say who waits least.
SHORTEST = 2.0


@dataclass(frozen=True, repr=False)
class JobProfile(Result):
    """`folder`: where its files are; `diff`: the two sides that are compared, as places in
    `profiles`."""

    kind: str
    rate: int
    recorded: RecordedFiles
    profiles: Sequence[Profile]
    all_ranks: Sequence[Rank]
    folder: Path
    files: Sequence[str]
    diff: tuple[Sequence[int], Sequence[int]] | None = None
    phase_of: PhaseOf | None = None

    @cached_property
    def phases(self) -> PhaseTable | None:
        if self.phase_of is None:
            return None
        return PhaseTable(self.profiles, self.phase_of, self.diff, self.whose)

    @cached_property
    def _all_rows(self) -> list[ProfileRow]:
        told = self.phase_of if self.phases else None
        return comparing.rows(self.profiles, told) if told else comparing.rows(self.profiles)

    @cached_property
    def rows(self) -> list[ProfileRow]:
        """The heaviest places first; of two sides those that differ most."""
        return comparing.differing(self._all_rows, *self.diff) if self.diff else self._all_rows

    @cached_property
    def slowest(self) -> Slowest | None:
        # A rank of which nothing was recorded may have waited all the time, or never.
        traced = self.recorded.seconds >= SHORTEST and not self.recorded.idle
        if self.kind == "cpu" or (self.kind == "torch" and traced):
            ranks = [profile.rank for profile in self.profiles]
            return comparing.find_slowest(self.rows, comparing.of_one_role(ranks))
        return None

    def as_json(self) -> dict[str, Any]:
        slow = self.slowest
        recorded = self.recorded
        return {
            "kind": self.kind,
            "seconds": round(recorded.seconds, 3),
            "rate": self.rate if self.kind == "cpu" else None,
            "cut_short": recorded.cut_short,
            "ranks": [
                {**profile_files.summary(rank, profile, recorded), "phases": self._phases_of(index)}
                for index, (rank, profile) in enumerate(self.by_rank())
            ],
            "phases": self.phases.as_json() if self.phases else [],
            "rows": [self._row_json(row) for row in self.rows[:ROWS_IN_JSON]],
            "diff": [self.whose(side) for side in self.diff] if self.diff else None,
            "slowest": {
                **process_json(self.profiles[slow.index].rank),
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
            "no_response": silent_json(recorded.no_response),
        }

    def by_rank(self) -> list[tuple[Rank, Profile | None]]:
        """Of nsys, only it can read what came home."""
        if self.kind == "nsys":
            return [(rank, None) for rank in self.recorded.ranks]
        return [(profile.rank, profile) for profile in self.profiles]

    def _phases_of(self, index: int) -> dict[str, float] | None:
        return rounded(self.phases.shares[index]) if self.phases else None

    def _row_json(self, row: ProfileRow) -> dict[str, Any]:
        return {
            "where": frame_json(row.frame),
            "calls": row.calls,
            "mean": round(row.mean, 4),
            "median": round(row.median, 4),
            "shares": [round(share, 4) for share in row.shares],  # in the order of `ranks`
            "waits": row.waits,
            "phase": row.phase,
            "odd": self.whose(row.far()) if row.far() else "",
        }

    # --- in words ---------------------------------------------------------------------

    def title(self) -> str:
        ranks = [rank for rank, _ in self.by_rank()]
        who = label(ranks, self.all_ranks)
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

    def place(self, row: ProfileRow) -> tuple[str, str]:
        """Where it is, and its phase if that alone tells two rows apart."""
        called = f" > {row.calls}" if row.calls else ""
        phase = f" ({row.phase})" if (row.frame, row.calls) in self._split else ""
        return f"{self.paths.text(row.frame)}{called}", phase

    @cached_property
    def _split(self) -> set[Any]:
        counted = Counter((row.frame, row.calls) for row in self._all_rows)
        return {place for place, count in counted.items() if count > 1}

    @cached_property
    def paths(self) -> Paths:
        return Paths(row.frame.file for row in self.rows)

    def whose(self, indices: Sequence[int]) -> str:
        return label([self.profiles[index].rank for index in indices], self.all_ranks)

    def slowest_text(self) -> str:
        """`` if none is the slowest."""
        slow = self.slowest
        if slow is None:
            return ""
        others = "the others" if len(self.profiles) > 2 else "the other"
        return (
            f"is the slowest: it waits {percent(slow.waits)} of the time, "
            f"{others} {percent(slow.others_wait)}"
        )

    def summary(self) -> str:
        slow = self.slowest
        if not self.profiles and not (self.kind == "nsys" and self.files):
            return f"nothing was recorded of {counted(len(self.recorded.no_response), 'rank')}"
        told = f"; rank {self.whose([slow.index])} {self.slowest_text()}" if slow else ""
        return self.title() + told

    def records(self) -> list[dict[str, Any]]:
        """One for each rank and place, the heaviest places first; `share` is from 0 to 1."""
        return [
            {
                **rank_record(profile.rank),
                "function": row.frame.function,
                "file": row.frame.file,
                "line": row.frame.line,
                "calls": row.calls,
                "phase": row.phase,
                "share": share,
                "waits": row.waits,
                "odd": index in row.far(),
            }
            for row in self.rows[:ROWS_IN_JSON]
            for index, (profile, share) in enumerate(zip(self.profiles, row.shares, strict=True))
        ]

    def _parts(self) -> list[HtmlPart]:
        from rankdbg.investigations.html import Paragraph, Table, TableRow

        rows = []
        for row in self.rows[:ROWS_IN_NOTEBOOKS]:
            most = max(range(len(row.shares)), key=row.shares.__getitem__)
            figures = percent(row.mean), percent(min(row.shares)), percent(row.shares[most])
            odd = f"odd: {self.whose(row.far())}" if row.far() and not self.diff else ""
            rows.append(TableRow(("".join(self.place(row)), *figures, self.whose([most])), odd))
        silent = silent_lines(self.recorded.no_response, self.all_ranks)
        texts = [f"no response: {ranks} ({why})" for ranks, why in silent]
        texts += [f"{self.folder / name}" for name in self.files]
        columns = ("where", "mean", "least", "most", "of")
        return [Table(columns, rows), *map(Paragraph, texts)]


def percent(share: float) -> str:
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.0f} %" if share >= 0.0995 or share == 0 else f"{100 * share:.1f} %"
