"""From when on a break counts: in all ranks from the same moment of the program.

A break is set in one rank after the other. If the first rank stops at the line when the last has
just passed it, the last waits in the next collective, and never reaches the line. So a client
first sets the break in all ranks, behind a closed gate, and then sends the count at which the gate
opens: of steps (rankdbg.progress), or of collectives of the default process group. In a program
whose ranks do the same work, all ranks have equal counts when they reach the line.

A rank that reaches that count waits at the line until the client confirms it. If another rank had
passed the count before it was told, the client sends a later one instead, and the rank goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from rankdbg.agent import card
from rankdbg.agent.groups import torch_groups

# A gate opens without its count after this time: the client may be gone, or the counts may not
# increase. In the latter case ranks reach the line so rarely that milliseconds do not matter.
CLOSED_SECONDS, STILL_SECONDS = 10.0, 3.0
CONFIRM_SECONDS = 5.0  # so long a rank waits at the line for the confirmation
POLL_SECONDS = 0.002


class Gated:
    """What counts from the time on when its gate is open."""

    gate: Gate | None = None  # None: it counts

    def passes_gate(self) -> bool:
        """Called when a thread is at the line. Waits for the confirmation of an open gate."""
        patience = time.monotonic() + CONFIRM_SECONDS
        while (gate := self.gate) is not None:
            if not gate.is_open():
                return False
            if gate.confirmed or time.monotonic() > patience:
                self.gate = None
            else:
                time.sleep(POLL_SECONDS)
        return True


# Each returns what it has that may be behind a gate: breaks, breakpoints of an editor.
holders: list[Callable[[], Iterable[Gated]]] = []


def _closed() -> list[Gated]:
    return [each for holder in holders for each in holder() if each.gate is not None]


def open_from(kind: str, count: int, measuring: bool) -> dict[str, Any]:
    """What is behind a gate counts from this step or collective on, as soon as that is confirmed;
    without a kind, at once."""
    for each in _closed():
        each.gate = CountGate(kind, count, measuring) if kind else None
    return {"counts": counts()}


def confirm() -> dict[str, Any]:
    """No rank had passed the count when it was told."""
    for each in _closed():
        if (gate := each.gate) is not None:
            gate.confirmed = True
    return {}


class Gate:
    """Closed until a client sends a count."""

    confirmed = True

    def __init__(self) -> None:
        self._until = time.monotonic() + CLOSED_SECONDS

    def is_open(self) -> bool:
        return time.monotonic() > self._until


class CountGate(Gate):
    """Open from a count on. With `measuring`, a count that is not to be reached."""

    def __init__(self, kind: str, opens_at: int, measuring: bool) -> None:
        super().__init__()
        self.confirmed = measuring
        self._kind, self._opens_at, self._measuring = kind, opens_at, measuring
        self._last = self._count()
        self._last_change = time.monotonic()

    def _count(self) -> int:
        return counts().get(self._kind, -1)

    def is_open(self) -> bool:
        if self._measuring:
            return super().is_open()
        count, now = self._count(), time.monotonic()
        if count != self._last:
            self._last, self._last_change = count, now
        return count >= self._opens_at or now - self._last_change > STILL_SECONDS


def counts() -> dict[str, int]:
    """The counts of steps and collectives that this process has."""
    found: dict[str, int] = {}
    if isinstance(card.step, int):
        found["step"] = card.step
    collectives = _collectives()
    if collectives is not None:
        found["collective"] = collectives
    return found


def _collectives() -> int | None:
    """The number of collectives that this process has started in the default group."""
    c10d: Any = torch_groups.module()
    try:
        group = c10d._world.default_pg if c10d is not None else None
        return None if group is None else int(group._get_sequence_number_for_group())
    except Exception:  # a backend without counts; a group that is being created or destroyed
        return None
