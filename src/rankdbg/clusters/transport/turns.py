"""Channels that are opened a few at a time.

Opening one costs time on the user's machine and on the cluster: a kubectl takes 0.1 s of CPU time
and 50 MB, and thirty at once on one node took 18 s.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from typing import Any

from rankdbg import wire
from rankdbg.clusters import Waiting
from rankdbg.clusters.transport.channel import ProcessChannel
from rankdbg.errors import NodeFailed, RankdbgError
from rankdbg.wire.streams import Stream

# A channel that takes longer to open no longer counts: it is waiting, not working.
STUCK_SECONDS = 2.0
LONGEST_QUEUE = 300.0


class Turns:
    def __init__(self, at_once: int) -> None:
        self._free = at_once  # threads that may still be made
        self._errands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def take(self, errand: Callable[[], None]) -> None:
        """Call `errand` when its turn comes; the turn ends when it returns."""
        self._errands.put(errand)
        if self._free:
            self._free -= 1
            threading.Thread(target=self._work, name="rankdbg turns", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._errands.get()()


class QueuedChannel:
    """A channel that is opened when its turn comes. Earlier questions wait until then."""

    def __init__(self, node: str, turns: Turns, open_: Callable[[], ProcessChannel]) -> None:
        self._node = node
        self._open = open_
        self._opened: ProcessChannel | RankdbgError | None = None
        self._asked: list[tuple[wire.Message, Future[Waiting]]] = []
        self._over = False
        self._lock = threading.Lock()
        turns.take(self._take_turn)

    @property
    def failure(self) -> RankdbgError | None:
        opened = self._opened
        return opened if opened is None or isinstance(opened, RankdbgError) else opened.failure

    @property
    def usable(self) -> bool:
        opened = self._opened
        return opened is None or (not isinstance(opened, RankdbgError) and opened.usable)

    def begin(self, message: wire.Message) -> Waiting:
        with self._lock:
            if self._opened is None:
                future: Future[Waiting] = Future()
                self._asked.append((message, future))
                return Queued(self._node, future)
        if isinstance(self._opened, RankdbgError):
            raise self._opened
        return self._opened.begin(message)

    def hang_up(self) -> None:
        with self._lock:
            self._over = True
        if self._opened is not None and not isinstance(self._opened, RankdbgError):
            self._opened.hang_up()

    def close(self, deadline: float) -> None:
        self.hang_up()
        if self._opened is not None and not isinstance(self._opened, RankdbgError):
            self._opened.close(deadline)

    def _take_turn(self) -> None:
        with self._lock:
            try:
                if self._over:
                    raise NodeFailed(f"{self._node} was not reached before rankdbg ended")
                self._opened = self._open()
            except RankdbgError as error:
                self._opened = error
        for message, future in self._asked:
            try:
                future.set_result(self.begin(message))
            except RankdbgError as error:
                future.set_exception(error)
        if not isinstance(self._opened, RankdbgError):
            self._opened.wait_until_settled(STUCK_SECONDS)


class Queued:
    """A question to a node that is not connected yet."""

    def __init__(self, node: str, waiting: Future[Waiting]) -> None:
        self._node = node
        self._waiting = waiting

    def answer(self, seconds: float, reach: float | None = None) -> Any:
        return self._begun().answer(seconds, reach)

    def open_stream(self, seconds: float) -> tuple[Stream, Any]:
        return self._begun().open_stream(seconds)

    def _begun(self) -> Waiting:
        try:
            return self._waiting.result(LONGEST_QUEUE)
        except Late:
            raise NodeFailed(
                f"cannot reach {self._node}: too many nodes are queued before it"
            ) from None
