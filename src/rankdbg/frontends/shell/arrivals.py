"""Answers that come after the command has returned: ranks that were stepped into a
collective, and came out of it when the others had followed."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rankdbg.frontends.reports.casts import CastReport
from rankdbg.frontends.reports.sources import Sources
from rankdbg.frontends.terminal import Terminal
from rankdbg.types import Answer, ProcessKey, Rank, Silence

PATIENCE = 0.5


class Arrivals:
    """Watches ranks that have not come back, and prints their answers when they do."""

    def __init__(self, sources: Sources, terminal: Terminal) -> None:
        self._sources = sources
        self._terminal = terminal
        self._away: dict[ProcessKey, Rank] = {}
        self._everybody: Sequence[Rank] = ()
        self._lock = threading.Lock()
        self._watching: threading.Thread | None = None
        self._closed = threading.Event()

    def expect(self, ranks: Sequence[Rank], everybody: Sequence[Rank]) -> None:
        with self._lock:
            self._away.update({rank.process: rank for rank in ranks})
            self._everybody = everybody
            if self._away and self._watching is None:
                self._watching = threading.Thread(target=self._watch, daemon=True)
                self._watching.start()

    def forget(self, ranks: Sequence[Rank]) -> None:
        """They get a new command, which waits for them itself."""
        with self._lock:
            for rank in ranks:
                self._away.pop(rank.process, None)

    def close(self, seconds: float) -> None:
        """At the end of a pipe: wait for those who may still come."""
        watching = self._watching
        if watching is not None:
            watching.join(seconds)
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.is_set():
            with self._lock:
                away = list(self._away.values())
                if not away:
                    self._watching = None
                    return
            self._show(self._sources.command(away, None, PATIENCE))

    def _show(self, answers: Sequence[Answer | Silence]) -> None:
        came = [
            answer
            for answer in answers
            if isinstance(answer, Silence) or answer.value["state"] != "running"
        ]
        with self._lock:
            came = [answer for answer in came if answer.rank.process in self._away]
            for answer in came:
                del self._away[answer.rank.process]
        if came and not self._closed.is_set():
            CastReport(came, self._everybody).print(self._terminal)
