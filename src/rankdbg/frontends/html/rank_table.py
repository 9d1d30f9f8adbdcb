"""The ranks of a page: each has a place, and sets of ranks are texts of places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from rankdbg.frontends.html.document import RankColumns, RankSet
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.selection import format_numbers
from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.hangs.evidence import Seen


class RankTable:
    """All ranks of the job, those that no process has taken among them."""

    def __init__(self, ranks: Iterable[Rank], seen: Iterable[Seen] = ()) -> None:
        self.ranks: Sequence[Rank] = sorted({r.process: r for r in ranks}.values(), key=_order)
        self._places = {rank.process: place for place, rank in enumerate(self.ranks)}
        self._seen = {each.rank.process: each for each in seen}

    @classmethod
    def of_verdict(cls, found: JobVerdict) -> RankTable:
        accused = [rank for finding in found.verdict.findings for rank in finding.ranks]
        # A culprit that is no rank (a helper, a server) has no cell.
        absent = [rank for rank in (*found.evidence.missing, *accused) if not rank.pid]
        return cls([*found.all_ranks, *absent], found.evidence.ranks)

    def place(self, rank: Rank) -> int | None:
        return self._places.get(rank.process)

    def seen(self, rank: Rank) -> Seen | None:
        return self._seen.get(rank.process)

    def set_of(self, ranks: Iterable[Rank]) -> RankSet:
        return self.set_of_processes(rank.process for rank in ranks)

    def set_of_processes(self, processes: Iterable[ProcessKey]) -> RankSet:
        return format_numbers(self._places[key] for key in processes if key in self._places)

    @cached_property
    def columns(self) -> RankColumns:
        roles, role = _indexed([rank.role for rank in self.ranks])
        hosts, host = _indexed([rank.host for rank in self.ranks])
        states, state = _indexed([rank.state for rank in self.ranks])
        notes, note = _indexed([self._note(rank) for rank in self.ranks])
        dimensions = list(dict.fromkeys(name for rank in self.ranks for name in rank.coordinates))
        outside = [rank for rank in self.ranks if not rank.agent or self._note(rank)]
        return {
            "numbers": [rank.number for rank in self.ranks],
            "roles": roles,
            "role": role,
            "hosts": hosts,
            "host": host,
            "states": states,
            "state": state,
            "pids": [rank.pid for rank in self.ranks],
            "locals": [rank.local_rank for rank in self.ranks],
            "dimensions": dimensions,
            "coordinates": [[rank.coordinates.get(d) for rank in self.ranks] for d in dimensions],
            # Of a job without agents that is said once, not by marking every cell.
            "outside": self.set_of(outside) if any(rank.agent for rank in self.ranks) else "",
            "notes": [text for text in notes if text],
            "note": [_without_empty(notes, number) for number in note],
        }

    def _note(self, rank: Rank) -> str:
        """Why it was read from outside, or not at all."""
        seen = self.seen(rank)
        return (seen.silence if seen is not None else "") or rank.detail


def _order(rank: Rank) -> tuple[str, bool, int, ProcessKey]:
    return rank.role, rank.number is None, rank.number or 0, rank.process


def _indexed(values: Sequence[str]) -> tuple[list[str], list[int]]:
    """The distinct values, and of each value its place among them."""
    places: dict[str, int] = {}
    column = [places.setdefault(value, len(places)) for value in values]
    return list(places), column


def _without_empty(values: Sequence[str], place: int) -> int:
    """The place after the empty text has been left out; -1 for the empty text itself."""
    if not values[place]:
        return -1
    return place - ("" in values[:place])
