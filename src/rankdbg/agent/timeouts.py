"""Who wants timeouts held: the whole run (`--hold-timeouts`), and shells while they are open.

A shell's wish is a lease, which its node renews. A shell that is killed takes its node with
it, the lease runs out, and every group has its own timeout again. Leases are counted in
wake-ups of the thread here: a program that holds the GIL for a minute, or is stopped by a
signal, cannot be asked to renew in that time, and ages no lease either.
"""

from __future__ import annotations

import sys

from rankdbg.agent import imports, in_flight, threads, torch_groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TICK_SECONDS = 1.0
# An operation that is still there after so long is one that waits for somebody.
SETTLING_SECONDS = 0.5
RUN = "run"

_holders: dict[str, float] = {}  # who -> how many more ticks
_watching = False
_ended = False
_one_at_a_time = threads.new_lock()  # of the agent's threads; the program's never wait for it


def hold_for_good() -> None:
    """From the start of the program on: groups wait long from their beginning."""
    _holders[RUN] = float("inf")
    _apply()


def hold(holder: str, seconds: float, look: bool) -> dict[str, Any]:
    """Until released, or for so long; with a look at operations that keep their limits."""
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


def after_fork() -> None:
    """In the child: shells ask it themselves, if they mean it too."""
    global _one_at_a_time, _watching
    for holder in list(_holders):
        if holder != RUN:
            del _holders[holder]
    _one_at_a_time = threads.new_lock()
    _watching = False
    if not _is_held():
        torch_groups.unwatch()


def at_exit() -> None:
    """No thread of ours may be inside torch when the interpreter ends: it could not come
    back, and C++ would abort."""
    global _ended
    _one_at_a_time.acquire(timeout=1.0)
    _ended = True


def _is_held() -> bool:
    return bool(_holders)


torch_groups.held = _is_held


def _arrived(c10d: Any) -> None:
    """The program has just imported torch.distributed, and has no groups yet."""
    if _is_held():
        torch_groups.watch(c10d)
        _start_watching()


def _apply() -> list[str]:
    """Make it so, as far as the program has groups by now."""
    refused: list[str] = []
    if torch_groups.MODULE not in sys.modules:
        imports.when_imported(torch_groups.MODULE, _arrived)
    c10d = torch_groups.module()
    if c10d is None or not _one_at_a_time.acquire(timeout=TICK_SECONDS):
        return refused  # not imported; or the program ends, or another does it just now
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
    """Ages leases, and finds what was made or set in ways that are not known here."""
    global _watching
    while _is_held() and not _ended:
        threads.pause(TICK_SECONDS)
        for holder in list(_holders):
            _holders[holder] -= 1
            if _holders[holder] <= 0:
                del _holders[holder]
        _apply()
    _watching = False
    _start_watching()  # if somebody has come in this moment


def _that_stay() -> list[dict[str, Any]]:
    waited = 0.0
    while (pending := short_limited()) and waited < SETTLING_SECONDS:
        threads.pause(0.1)
        waited += 0.1
    return pending
