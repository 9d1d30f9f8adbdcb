"""One connection for each target, shared by all calls about it, closed when it has been idle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rankdbg.investigations.connection import JobConnection

IDLE_SECONDS = 300.0


class Cancelled(Exception):
    """The client has cancelled this call."""


Connect = Callable[[tuple[str, ...], Callable[[int, int], None]], JobConnection]


@dataclass
class SharedConnection:
    """`nodes`: how many have answered the last question, and how many there are."""

    connection: JobConnection | None = None
    users: int = 0
    idle_since: float = 0.0
    nodes: tuple[int, int] = (0, 0)
    opening: threading.Lock = field(default_factory=threading.Lock)
    stops: dict[int, threading.Event] = field(default_factory=dict)  # by the thread of a call

    def note_progress(self, done: int, nodes: int) -> None:
        """Before each answer of a node: a call that was cancelled asks no further."""
        self.nodes = done, nodes
        stop = self.stops.get(threading.get_ident())
        if stop is not None and stop.is_set():
            raise Cancelled


class SharedConnections:
    def __init__(
        self,
        connect: Connect,
        idle_seconds: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._shared: dict[tuple[str, ...], SharedConnection] = {}
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def use(
        self, targets: tuple[str, ...], stop: threading.Event
    ) -> Iterator[tuple[JobConnection, SharedConnection]]:
        """Raises what connecting raises; the next call tries again. Once `stop` is set, questions of
        this thread raise Cancelled."""
        with self._lock:
            shared = self._shared.setdefault(targets, SharedConnection())
            shared.users += 1
        try:
            with shared.opening:  # a slow target delays calls about itself only
                if shared.connection is None:
                    shared.connection = self._connect(targets, shared.note_progress)
                connection = shared.connection
            shared.stops[threading.get_ident()] = stop
            yield connection, shared
        finally:
            shared.stops.pop(threading.get_ident(), None)
            with self._lock:
                shared.users -= 1
                shared.idle_since = self._clock()
                ended = self._closed
            if ended:  # it was opened while the server ended
                self.close()

    def close_idle(self) -> float:
        """Closes what has not been used for long. Returns the seconds until the next may be."""
        now = self._clock()
        with self._lock:
            unused = {t: shared for t, shared in self._shared.items() if not shared.users}
            due = {t: s for t, s in unused.items() if now - s.idle_since >= self._idle_seconds}
            for targets in due:
                del self._shared[targets]
            waits = [
                s.idle_since + self._idle_seconds - now for t, s in unused.items() if t not in due
            ]
        _close(due.values())
        return max(1.0, min([self._idle_seconds, *waits]))

    def close(self) -> None:
        """All of them: questions that are under way fail."""
        with self._lock:
            self._closed = True
            shared = [*self._shared.values()]
            self._shared.clear()
        _close(shared)


def _close(some: Iterable[SharedConnection]) -> None:
    for each in some:
        if each.connection is not None:
            each.connection.close()
