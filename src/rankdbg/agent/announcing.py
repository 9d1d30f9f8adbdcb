"""Announcements: nodes that watch this process learn of its stops without asking.

When every stop waits for a command, a watching node gets what this process would answer about
itself and its stops. Before one of these threads continues, or another one stops, the node gets
an empty announcement, which means "ask". So the last announcement is never wrong, only
sometimes missing.

    a thread continues or stops   retract(): the empty announcement is sent at once
    a prompt                      renew(): wakes the announcer, a thread of the agent
"""

from __future__ import annotations

from _socket import MSG_DONTWAIT, MSG_NOSIGNAL, SHUT_RDWR

from rankdbg import wire
from rankdbg.agent import active, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# After a command, the answer to its client comes first; most clients send the next command
# within this time.
SETTLING_SECONDS = 0.02
# Nothing wakes a thread that waits on a descriptor which the program has closed.
CHECK_SECONDS = 5.0
LOCK_SECONDS = 1.0
_ASK: dict[str, Any] = {"announced": {}}

_watchers: dict[Any, Callable[[], bool]] = {}  # connections, and whether each is still ours
_describe: Callable[[], dict[str, Any] | None] | None = None
_lock = threads.new_lock()
_wanted = threads.new_lock()  # a gate: open when there may be something to announce
_turn = 0  # counts changes
_announced = False
_announces = False


def watch(
    connection: Any, is_ours: Callable[[], bool], describe: Callable[[], dict[str, Any] | None]
) -> None:
    """Announce to this connection until its client disconnects. `describe` returns what is
    announced, or None while clients have to ask."""
    global _describe, _announces
    _describe = describe
    connection.settimeout(CHECK_SECONDS)
    _watchers[connection] = is_ours
    try:
        if not _announces:
            _announces = True
            threads.start(_announce_changes)
        renew()
        _wait_until_closed(connection)
    finally:
        with _lock:
            _watchers.pop(connection, None)


def _wait_until_closed(connection: Any) -> None:
    while True:
        try:
            if not connection.recv(4096):
                return
        except TimeoutError:
            pass


def changed() -> None:
    """What was announced is no longer complete."""
    retract()
    renew()


def retract(stops: bool = False) -> None:
    """Before a thread continues: when this returns, every watching node knows that it has to ask.
    With `stops`, a thread stops: nodes that have no announcement get this too."""
    global _turn, _announced
    if not _watchers:
        return
    # A signal handler may stop the thread that holds the lock: then it must not wait for itself.
    held = _lock.acquire(timeout=LOCK_SECONDS)
    _turn += 1
    if _announced or stops:
        _announced = False
        _send(_ASK)
    if held:
        _lock.release()


def renew() -> None:
    """There may be something to announce."""
    if _watchers:
        try:
            _wanted.release()
        except RuntimeError:  # already open
            pass


def _after_fork() -> None:
    """The nodes watch the parent, not this child."""
    global _lock, _wanted, _announced, _announces
    _watchers.clear()
    _lock = threads.new_lock()
    _wanted = threads.new_lock()
    _announced = _announces = False


active.after_fork.append(_after_fork)


def _announce_changes() -> None:
    while True:
        _wanted.acquire()
        threads.pause(SETTLING_SECONDS)
        with threads.AtWork():
            _announce()


def _announce() -> None:
    global _announced
    turn = _turn
    described = _describe() if _describe is not None else None
    with _lock:
        # A thread may have continued since it was described.
        if described is not None and turn == _turn:
            _announced = True
            _send({"announced": described})


def _send(message: dict[str, Any]) -> None:
    """Never waits: the sender may be the thread that stops. A node that does not read is
    disconnected, and asks from then on."""
    data = wire.encode(message)
    for connection, is_ours in list(_watchers.items()):
        if not is_ours():
            continue
        try:
            whole = connection.send(data, MSG_DONTWAIT | MSG_NOSIGNAL) == len(data)
        except OSError:
            whole = False
        if not whole:
            _hang_up(connection)


def _hang_up(connection: Any) -> None:
    try:
        connection.shutdown(SHUT_RDWR)
    except OSError:
        pass
