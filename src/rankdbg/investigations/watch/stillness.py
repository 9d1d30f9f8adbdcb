"""Which ranks have made progress since the last poll. A poll costs a rank microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankdbg.session import Session
from rankdbg.types import Answer, ProcessKey, Rank, Stack
from rankdbg.verdicts.hangs import progress
from rankdbg.wire.answers import Vitals

# If this share of the ranks that moved before has stopped moving, the job is examined.
STILL_SHARE = 0.5


@dataclass
class LastProgress:
    """The position of a rank when it last made progress: wake-ups that are minutes apart add up."""

    frames: Any
    vitals: Vitals
    since: float
    has_moved: bool = False


@dataclass
class Stillness:
    """Keeps the position of each rank between polls."""

    places: dict[ProcessKey, LastProgress] = field(default_factory=dict)
    steps: dict[ProcessKey, int] = field(default_factory=dict)
    stepped: float = 0.0  # when a rank last reported a new step

    def look(self, session: Session, ranks: Sequence[Rank], now: float) -> None:
        look_at_all(session, [(self, ranks)], now)

    def note_look(
        self,
        alive: Sequence[Rank],
        stacks: Mapping[ProcessKey, tuple[Stack, ...]],
        vitals: Mapping[ProcessKey, Vitals],
        now: float,
    ) -> None:
        """What one look has seen of these ranks, and maybe of others: main threads, and the counters
        of the kernel."""
        for rank in alive:
            if rank.process in vitals:
                self._note(rank.process, stacks.get(rank.process), vitals[rank.process], now)
        self._note_steps(alive, now)
        present = {rank.process for rank in alive}
        self.places = {key: place for key, place in self.places.items() if key in present}

    def _note(self, key: ProcessKey, frames: Any, vitals: Vitals, now: float) -> None:
        known = self.places.get(key)
        if known is None:
            self.places[key] = LastProgress(frames, vitals, now)
        elif progress.signs(progress.Facts(known.vitals, vitals, moved=known.frames != frames)):
            self.places[key] = LastProgress(frames, vitals, now, has_moved=True)

    def note_moved(self, key: ProcessKey, now: float) -> None:
        """By other evidence than that of a look."""
        if place := self.places.get(key):
            place.since = now
            place.has_moved = True

    def _note_steps(self, ranks: Sequence[Rank], now: float) -> None:
        for rank in ranks:
            if rank.step is not None and self.steps.get(rank.process) != rank.step:
                self.steps[rank.process] = rank.step
                self.stepped = now

    def still_for(self, now: float) -> float:
        """For how long most ranks that moved before have made no progress; if ranks report steps
        (rankdbg.progress), for how long none has reported a new one."""
        if self.steps:
            return now - self.stepped
        moved = [place for place in self.places.values() if place.has_moved]
        if not moved:
            return 0.0
        since = sorted(place.since for place in moved)
        return now - since[_middle(since)]

    def still_since_seen(self, now: float) -> float:
        """The same, also of ranks that have not moved since they were first seen."""
        if self.steps:
            return now - self.stepped
        since = sorted(place.since for place in self.places.values())
        return now - since[_middle(since)] if since else 0.0

    def assume_still(self, now: float, seconds: float) -> None:
        """Assume that all ranks have made no progress for this long."""
        for place in self.places.values():
            place.since = now - seconds
            place.has_moved = True
        self.stepped = now - seconds

    def forget(self, now: float) -> None:
        """Restart the clock."""
        for place in self.places.values():
            place.since = now
        self.stepped = now


def _middle(since: Sequence[float]) -> int:
    """The median: half of the ranks have not moved since then."""
    return max(0, int(len(since) * STILL_SHARE + 0.5) - 1)


def look_at_all(
    session: Session, jobs: Iterable[tuple[Stillness, Sequence[Rank]]], now: float
) -> dict[ProcessKey, tuple[Stack, ...]]:
    """Looks at several jobs with one question to each node. Returns the main threads."""
    alive = [
        (each, [r for r in ranks if r.state not in ("gone", "zombie")]) for each, ranks in jobs
    ]
    all_ranks = [rank for _, ranks in alive for rank in ranks]
    sampled, _ = session.stacks(all_ranks, samples=1)
    stacks = {each.rank.process: each.main() for each in sampled}
    answers = session.vitals(all_ranks)
    vitals = {each.rank.process: each.value for each in answers if isinstance(each, Answer)}
    for stillness, ranks in alive:
        stillness.note_look(ranks, stacks, vitals, now)
    return stacks
