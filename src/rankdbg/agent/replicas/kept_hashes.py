"""Hashes of this rank's tensors at the start of every N-th step, kept in memory.

The newest records are all kept; of older ones those of every second, fourth, … turn, so that ranks that
began at different steps still have the same ones.
"""

from __future__ import annotations

import time

from rankdbg.agent import card, threads
from rankdbg.agent.describe import exception_text
from rankdbg.agent.replicas import found_tensors, step_work, tensor_hashes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEWEST = OLDER = 64  # records
FEWEST = 4
MOST_BYTES = 16 << 20  # of all hashes that are kept


class HashRecord:
    """`entries`: of the tensors, the same list in all records whose tensors are the same."""

    def __init__(
        self, step: int, turn: int, entries: list[dict[str, Any]], hashes: list[str]
    ) -> None:
        self.step, self.turn, self.entries = step, turn, entries
        self.hashes = "".join(hashes)

    def tensors(self) -> list[dict[str, Any]]:
        return [{**entry, "hash": self.hash(n)} for n, entry in enumerate(self.entries)]

    def hash(self, number: int) -> str:
        return self.hashes[number * 16 : number * 16 + 16]


class StepHasher:
    """Called by rankdbg.progress() at each step."""

    def __init__(self, every: int, kinds: tuple[str, ...]) -> None:
        self.every, self.kinds = every, kinds
        self.records: list[HashRecord] = []
        self.seconds = 0.0  # that the last one took
        self.why = ""  # it has ended
        self._holders = found_tensors.recent_holders()
        self._turn = None if card.step is None else card.step // every

    def __call__(self, step: int) -> None:
        turn = step // self.every
        if turn == self._turn:
            return
        self._turn = turn
        begun = time.monotonic()
        try:
            self._note(step, turn)
        except Exception as error:  # out of memory on the device: the program goes on
            self.why = exception_text(error)[:500]
            step_work.remove(self)
        self.seconds = time.monotonic() - begun

    def _note(self, step: int, turn: int) -> None:
        if self._holders.are_gone:
            self._holders = found_tensors.Holders()
        found = self._holders.tensors(self.kinds)
        entries = [each.entry() for each in found]
        if self.records and self.records[-1].entries == entries:
            entries = self.records[-1].entries
        hashes = tensor_hashes.hash_tensors([each.tensor for each in found])
        record = HashRecord(step, turn, entries, hashes)
        room = MOST_BYTES // (16 * max(1, len(entries))) // 2
        # A program that goes back to a checkpoint comes through these steps again.
        kept = [each for each in self.records if each.step < step]
        self.records = thinned([*kept, record], max(FEWEST, min(NEWEST, room)))


def thinned(records: list[Any], room: int) -> list[Any]:
    """The newest, as many older ones at most, and always the first."""
    older, newest = records[:-room], records[-room:]
    first, older = older[:1], older[1:]
    apart = 1
    while len(older) >= room:
        apart *= 2
        older = [each for each in older if each.turn % apart == 0]
    return first + older + newest


_keeper: StepHasher | None = None
_changing = threads.new_lock()


def keep(every: int, kinds: tuple[str, ...]) -> dict[str, Any]:
    """From now on; 0: no longer, and what was kept is forgotten."""
    global _keeper
    with _changing:
        if _keeper is not None:
            step_work.remove(_keeper)
        _keeper = StepHasher(every, kinds) if every > 0 else None
        if _keeper is not None:
            card.step_work.append(_keeper)
    return {"every": max(0, every), "step": card.step}


def kept(step: int | None, tensors: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """The steps; all tensors at one of them; and the hashes of some at all of them."""
    keeper = _keeper
    if keeper is None:
        return {"every": 0}
    records = keeper.records
    at_step = [each.tensors() for each in records if each.step == step]
    return {
        "every": keeper.every,
        "kinds": [*keeper.kinds],
        "steps": [each.step for each in records],
        "seconds": keeper.seconds,
        "why": keeper.why,
        "tensors": at_step[0] if at_step else [],
        "histories": [_history(records, *key) for key in tensors],
    }


def _history(records: list[HashRecord], kind: str, name: str) -> list[str]:
    """Beside the steps; empty where it was not there."""
    found, place, entries = [], None, None
    for record in records:
        if record.entries is not entries:
            entries = record.entries
            places = [n for n, e in enumerate(entries) if (e["kind"], e["name"]) == (kind, name)]
            place = places[0] if places else None
        found.append("" if place is None else record.hash(place))
    return found
