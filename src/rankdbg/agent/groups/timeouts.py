"""Who holds timeouts: the whole run (`--hold-timeouts`), stopped ranks, and open shells.

A shell has a lease, which its node renews. When a shell is killed, its node ends too, the lease
expires, and every group gets its own timeout back. Leases are counted in wake-ups of the thread
here: while a program holds the GIL for a minute, or is stopped by a signal, no renewal reaches
it, and no lease gets older.
"""

from __future__ import annotations

import sys

from rankdbg.agent import active, imports, threads
from rankdbg.agent.groups import in_flight, torch_groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TICK_SECONDS = 1.0
# An operation that is still under way after this time waits for another rank.
SETTLING_SECONDS = 0.5
RUN = "run"
STOP = "stop-"  # begins the name of a stopped rank as a holder

_holders: dict[str, float] = {}  # holder -> remaining ticks
_watching = False
_ended = False
_one_at_a_time = threads.new_lock()  # for the agent's threads; the program's never wait for it


def hold_for_good() -> None:
    """From the start of the program on: groups are created with the long timeout."""
    _holders[RUN] = float("inf")
    _apply()


def hold(holder: str, seconds: float, look: bool) -> dict[str, Any]:
    """Until released, or for this many seconds. With `look`, returns operations that keep their
    limits."""
    _holders[holder] = max(1.0, seconds / TICK_SECONDS)
    refused = _apply()
    _start_watching()
    return {"held": True, "refused": refused, "in_flight": _that_stay() if look else []}


def release(holder: str) -> dict[str, Any]:
    _holders.pop(holder, None)
    _apply()
    return {"held": _is_held(), "refused": [], "in_flight": []}


def short_limited() -> list[dict[str, Any]]:
    """Operations under way whose limit was not raised, while timeouts are held."""
    c10d = torch_groups.module()
    return in_flight.short_limited(c10d) if c10d is not None and _is_held() else []


def is_held_by_others() -> bool:
    """By a shell, which reaches every node, or from the start of every rank."""
    return any(not holder.startswith(STOP) for holder in _holders)


def _after_fork() -> None:
    """Drop the leases: shells ask the child itself."""
    global _one_at_a_time, _watching
    for holder in list(_holders):
        if holder != RUN:
            del _holders[holder]
    _one_at_a_time = threads.new_lock()
    _watching = False
    if not _is_held():
        torch_groups.unwatch()


def _at_exit() -> None:
    """No thread of ours may be inside torch when the interpreter shuts down: it could not return,
    and C++ would abort."""
    global _ended
    _one_at_a_time.acquire(timeout=1.0)
    _ended = True


def _is_held() -> bool:
    return bool(_holders)


def _on_import(c10d: Any) -> None:
    """The program has just imported torch.distributed, and has no groups yet."""
    if _is_held():
        torch_groups.watch(c10d)
        _start_watching()


def _apply() -> list[str]:
    """Raise or restore the timeouts of all groups that the program has by now."""
    refused: list[str] = []
    if torch_groups.MODULE not in sys.modules:
        imports.when_imported(torch_groups.MODULE, _on_import)
    c10d = torch_groups.module()
    if c10d is None or not _one_at_a_time.acquire(timeout=TICK_SECONDS):
        return refused  # not imported; or the program exits; or another thread does it
    try:
        if _ended:
            return refused
        if _is_held():
            first = torch_groups.watch(c10d)
            refused = torch_groups.raise_all(c10d)
            (in_flight.note if first else in_flight.prune)(c10d)
        else:
            torch_groups.unwatch()
            torch_groups.restore_all(c10d)
    finally:
        if not _ended:
            _one_at_a_time.release()
    _start_watching()
    return refused


def _start_watching() -> None:
    global _watching
    if _is_held() and not _watching and not _ended:
        _watching = True
        threads.start(_watch)


def _watch() -> None:
    """Counts leases down, and raises timeouts that were set in other ways than the known ones."""
    global _watching
    while _is_held() and not _ended:
        threads.pause(TICK_SECONDS)
        for holder in list(_holders):
            _holders[holder] -= 1
            if _holders[holder] <= 0:
                del _holders[holder]
        _apply()
    _watching = False
    _start_watching()  # a holder may have come meanwhile


def _that_stay() -> list[dict[str, Any]]:
    waited = 0.0
    while (pending := short_limited()) and waited < SETTLING_SECONDS:
        threads.pause(0.1)
        waited += 0.1
    return pending


torch_groups.held = _is_held
active.operations_with_limits = short_limited
active.after_fork.append(_after_fork)
active.at_exit.append(_at_exit)
