"""Stacks of all threads as the page merges them, and what the grid is coloured by."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from rankdbg import grouping
from rankdbg.frontends.html.document import (
    ColourClass,
    Colouring,
    EqualStacks,
    FrameView,
    ThreadView,
)
from rankdbg.frontends.html.rank_table import RankTable
from rankdbg.investigations.hangs.job_verdicts import JobVerdict, row_text
from rankdbg.process.user_code import innermost_user_frame, is_user_code
from rankdbg.types import Frame, Rank
from rankdbg.verdicts.hangs.evidence import Seen

MAIN = "main"
MOST_THREADS = 6  # beside the main one
_NUMBER = re.compile(r"\d+")
_Threads = dict[str, list[tuple[Rank, grouping.Frames, bool]]]


class StackViews:
    """Frames are numbered: most are in the stacks of all ranks."""

    def __init__(self, found: JobVerdict, table: RankTable) -> None:
        self._found, self._table = found, table
        self._signs = {sign.seen.rank.process: sign for sign in found.verdict.signs}
        self._not_examined = {rank.process for rank in found.evidence.others}
        self._numbers: dict[Frame, int] = {}
        self._main = grouping.group_stacks(
            (seen.rank, seen.frames, seen.moving) for seen in found.evidence.ranks
        )[::-1]
        self.threads: list[ThreadView] = [
            {"name": MAIN, "groups": self._groups(self._main)},
            *self._other_threads(),
        ]

    @property
    def frames(self) -> list[FrameView]:
        paths = self._found.paths
        return [
            {
                "function": frame.function,
                "at": paths.line(frame),
                "file": frame.file,
                "line": frame.line,
                "own": is_user_code(frame.file),
            }
            for frame in self._numbers
        ]

    @property
    def samples(self) -> int:
        return max((len(seen.samples) for seen in self._found.evidence.ranks), default=0)

    def _groups(self, groups: Sequence[grouping.StackGroup[Rank]]) -> list[EqualStacks]:
        return [
            {
                "frames": [self._number(frame) for frame in reversed(group.frames)],
                "moving": group.moving,
                "ranks": self._table.set_of(group.members),
            }
            for group in groups
            if group.frames
        ]

    def _number(self, frame: Frame) -> int:
        return self._numbers.setdefault(frame, len(self._numbers))

    def _other_threads(self) -> list[ThreadView]:
        """Those that most ranks have. `worker-0` to `worker-7` are one kind of thread."""
        threads: _Threads = defaultdict(list)
        for seen in self._found.evidence.ranks:
            for name, (frames, moving) in seen.others.items():
                threads[_NUMBER.sub("N", name)].append((seen.rank, frames, moving))
        common = sorted(threads, key=lambda name: -len({r.process for r, _, _ in threads[name]}))
        return [
            {"name": name, "groups": self._groups(grouping.group_stacks(threads[name])[::-1])}
            for name in common[:MOST_THREADS]
        ]

    # --- what the grid is coloured by -----------------------------------------------------

    @property
    def colourings(self) -> list[Colouring]:
        return [
            {
                "name": "equal stacks",
                "columns": ["where", "what it does"],
                "classes": [*map(self._by_stack, self._main), *self._without_stacks()],
            },
            {
                "name": "state",
                "columns": ["state", ""],
                "classes": self._by_state(),
            },
        ]

    def _by_stack(self, group: grouping.StackGroup[Rank]) -> ColourClass:
        told = [self._signs[r.process] for r in group.members if r.process in self._signs]
        if not group.frames:
            return self._class("no stack", group.members, row_text(told) if told else "")
        place = group.frames[innermost_user_frame(frame.file for frame in group.frames)]
        return {
            "text": place.function,
            "at": self._found.paths.line(place),
            "says": row_text(told) if told else "",
            "code": True,
            "odd": False,
            "ranks": self._table.set_of(group.members),
        }

    def _without_stacks(self) -> list[ColourClass]:
        """Ranks that were not examined, have ended or have no process."""
        left = [rank for rank in self._table.ranks if self._table.seen(rank) is None]
        return self._classes([(rank, self._absence(rank)) for rank in left])

    def _by_state(self) -> list[ColourClass]:
        accused = {rank.process for f in self._found.verdict.findings[:1] for rank in f.ranks}
        waiting = {sign.seen.rank.process for sign in self._found.verdict.waiting}
        states = []
        for rank in self._table.ranks:
            seen = self._table.seen(rank)
            if rank.process in accused:
                states.append((rank, "holds up others" if waiting else "makes no progress"))
            elif seen is None:
                states.append((rank, self._absence(rank)))
            else:
                states.append((rank, _state(seen, rank.process in waiting)))
        return self._classes(states)

    def _absence(self, rank: Rank) -> str:
        if not rank.pid:
            return "no process"
        if rank.process in self._not_examined:
            return "not examined"
        return "no response" if rank.state == "blocked" else "ended"

    def _classes(self, labelled: Sequence[tuple[Rank, str]]) -> list[ColourClass]:
        return [
            self._class(str(text), ranks) for text, ranks in grouping.group_equal(labelled) if ranks
        ]

    def _class(self, text: str, ranks: Sequence[Rank], says: str = "") -> ColourClass:
        return {
            "text": text,
            "at": "",
            "says": says,
            "code": False,
            "odd": False,
            "ranks": self._table.set_of(ranks),
        }


def _state(seen: Seen, waiting: bool) -> str:
    if seen.stop:
        return "stopped in the debugger"
    if seen.stirred:
        return "makes progress"
    if waiting:
        return "waits"
    return "no response" if not seen.samples else "makes no progress"
