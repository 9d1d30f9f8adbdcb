"""Who has come on since the last look. Cheap: what a rank is asked costs it microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rankdbg.session import Session
from rankdbg.types import Answer, ProcessKey, Rank

# Of the ranks that have moved before, this share must stand for the job to be looked at.
STILL_SHARE = 0.5


@dataclass
class Place:
    """Where a rank was, and since when."""

    mark: Any
    since: float
    has_moved: bool = False


@dataclass
class Stillness:
    """Remembers each rank's place from look to look."""

    places: dict[ProcessKey, Place] = field(default_factory=dict)
    steps: dict[ProcessKey, int] = field(default_factory=dict)
    stepped: float = 0.0  # when a rank has last told a new step

    def look(self, session: Session, ranks: Sequence[Rank], now: float) -> None:
        alive = [rank for rank in ranks if rank.state not in ("gone", "zombie")]
        stacks, _ = session.stacks(alive, samples=1)
        frames = {sampled.rank.process: sampled.main() for sampled in stacks}
        for answer in session.vitals(alive):
            if isinstance(answer, Answer):
                key, vitals = answer.rank.process, answer.value
                wrote = vitals.get("written", 0)
                # A wait that wakes up by itself (a poll) counts nothing that matters.
                woken = vitals["switches"] if vitals["call"] == "futex" else 0
                self._note(key, (frames.get(key), woken, wrote), now)
        self._note_steps(alive, now)
        present = {rank.process for rank in alive}
        self.places = {key: place for key, place in self.places.items() if key in present}

    def _note(self, key: ProcessKey, mark: Any, now: float) -> None:
        known = self.places.get(key)
        if known is None:
            self.places[key] = Place(mark, now)
        elif known.mark != mark:
            self.places[key] = Place(mark, now, has_moved=True)

    def _note_steps(self, ranks: Sequence[Rank], now: float) -> None:
        for rank in ranks:
            if rank.step is not None and self.steps.get(rank.process) != rank.step:
                self.steps[rank.process] = rank.step
                self.stepped = now

    def still_for(self, now: float) -> float:
        """For how long most of those that moved before have stood; where ranks tell their
        steps (rankdbg.progress), for how long none has told a new one."""
        if self.steps:
            return now - self.stepped
        moved = [place for place in self.places.values() if place.has_moved]
        if not moved:
            return 0.0
        since = sorted(place.since for place in moved)
        # The youngest of the older half: so many have stood since then.
        index = max(0, int(len(since) * STILL_SHARE + 0.5) - 1)
        return now - since[index]

    def forget(self, now: float) -> None:
        """What stands must stand anew before it is looked at again."""
        for place in self.places.values():
            place.since = now
        self.stepped = now
