"""While a thread of this rank is stopped, the ranks of its job hold their timeouts.

This covers the ranks that this rank can reach: the processes of the job whose agents have their
sockets in the same directory, that is, on this node (docs/design/agent.md says why not others).
They are asked within milliseconds, since a collective uses the timeout that its group has when
the collective starts: ranks that start it later wait for as long as the stop lasts. A rank that
already waits keeps its limit, and a message names it.

They get leases, as from shells (timeouts.py): if this process is killed, its lease expires. After
the last stop they hold a little longer, so that the collective in which they wait at the next
stop has started with the long timeout too.

Imported at the first stop in a program that has loaded torch.distributed, not before.
"""

from __future__ import annotations

import os
import time

from rankdbg.agent import active, card, job_members, messages, threads
from rankdbg.agent.groups import timeouts
from rankdbg.agent.stops import stopped_threads
from rankdbg.errors import RankdbgError
from rankdbg.process import rendezvous
from rankdbg.wire.questions import HoldLease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RENEW_SECONDS = 2.0
LEASE_SECONDS = 4 * RENEW_SECONDS
# After the last stop: longer than most training steps take.
LINGER_SECONDS = 60.0
ANSWER_SECONDS = 3.0

_renewing = False
_has_warned = False
_one_at_a_time = threads.new_lock()


def begin() -> None:
    """A thread of this process has stopped."""
    global _renewing
    with _one_at_a_time:
        if _renewing:
            return
        _renewing = True
    threads.start(_renew_leases)


def _after_fork() -> None:
    """The stops, and the thread that renews leases, are in the parent."""
    global _renewing, _one_at_a_time
    _renewing = False
    _one_at_a_time = threads.new_lock()


active.after_fork.append(_after_fork)


def _renew_leases() -> None:
    global _renewing
    _warn(_request_lease(LEASE_SECONDS, look=True))
    _warn_of_other_nodes()
    while True:
        while stopped_threads.everyone():
            threads.pause(RENEW_SECONDS)
            _request_lease(LEASE_SECONDS)
        _request_lease(LINGER_SECONDS)
        with _one_at_a_time:
            if not stopped_threads.everyone():  # else another stop has begun meanwhile
                _renewing = False
                return


def _request_lease(lease: float, look: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """Make every process of the job hold its timeouts for this many seconds. With `look`, returns
    operations that keep their limits, each with the rank that waits in it."""
    holder = f"{timeouts.STOP}{os.getpid()}-{rendezvous.start_time()}"
    question = {"id": 1, **HoldLease(holder=holder, lease=lease, renewal=not look).message()}
    asked = [(name, job_members.send(path, question)) for name, path in job_members.members()]
    deadline = time.monotonic() + ANSWER_SECONDS
    found = []
    for name, connection in asked:
        if connection is not None:
            try:  # without `look` too: an agent does nothing for a client that has disconnected
                found += [(name, entry) for entry in _in_flight(connection, deadline)]
            except (OSError, RankdbgError):  # it holds the GIL, or exits
                pass
            finally:
                connection.close()
    return found


def _warn_of_other_nodes() -> None:
    """Once: their ranks cannot be told, and keep their timeouts unless a shell holds these."""
    global _has_warned
    if not _has_warned and not timeouts.is_held_by_others() and _spans_nodes():
        _has_warned = True
        messages.write_with_name(
            "is stopped: ranks on other nodes that wait for it keep their timeouts; rankdbg shell "
            "holds them while it is open, rankdbg run --hold-timeouts from the start"
        )


def _spans_nodes() -> bool:
    """Whether the job has ranks elsewhere: torchrun says how many are here; else there are fewer
    agents than ranks."""
    world = card.make()["labels"].get("world")
    if not isinstance(world, int):
        return False
    told = os.environ.get("LOCAL_WORLD_SIZE", "")
    here = (
        int(told)
        if told.isdecimal()
        else sum(who != job_members.UNNUMBERED for who, _ in job_members.members())
    )
    return here < world


def _in_flight(connection: Any, deadline: float) -> list[dict[str, Any]]:
    return list(job_members.answer(connection, deadline).get("in_flight", ()))


def _warn(found: list[tuple[str, dict[str, Any]]]) -> None:
    """One message for all timeouts that still run: the first of them ends the job."""
    if not found:
        return
    name, entry = min(found, key=lambda pair: pair[1]["left"] or float("inf"))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    when = f"in {entry['left']:.0f} s" if entry["left"] else "when its limit is reached"
    messages.write_with_name(
        f"is stopped, but {name} was already waiting in {entry['operation']}{more} and times out "
        f"{when}; rankdbg run --hold-timeouts avoids that"
    )
