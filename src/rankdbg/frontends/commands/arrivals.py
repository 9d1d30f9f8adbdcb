"""Answers that arrive after the command has returned: a rank that stepped into a collective
returns from it when the other ranks have joined."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rankdbg.frontends.commands.lines import InputLines
from rankdbg.frontends.reports.casts import print_cast
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.stops.casts import CastOutputs
from rankdbg.investigations.stops.stop_sources import Sources
from rankdbg.types import ProcessKey, Rank, Reply, Silence
from rankdbg.wire.answers import StopReport

PATIENCE = 0.5


class Arrivals:
    """Waits for ranks that have not returned, and prints their answers when they do."""

    def __init__(self, sources: Sources, terminal: Terminal, lines: InputLines) -> None:
        self._sources = sources
        self._terminal = terminal
        self._lines = lines
        self._away: dict[ProcessKey, Rank] = {}
        self._threads: Sequence[str] = ()  # whose stops the last command was for
        self._all_ranks: Sequence[Rank] = ()
        self._lock = threading.Lock()
        self._watching: threading.Thread | None = None
        self._closed = threading.Event()

    def expect(
        self, ranks: Sequence[Rank], all_ranks: Sequence[Rank], threads: Sequence[str] = ()
    ) -> None:
        with self._lock:
            self._threads = threads
            self._away.update({rank.process: rank for rank in ranks})
            self._all_ranks = all_ranks
            if self._away and self._watching is None:
                self._watching = threading.Thread(target=self._watch, daemon=True)
                self._watching.start()

    def forget(self, ranks: Sequence[Rank]) -> None:
        """Stop waiting for these ranks: a new command waits for them."""
        with self._lock:
            for rank in ranks:
                self._away.pop(rank.process, None)

    def close(self, seconds: float) -> None:
        """At the end of a script: wait for the answers that are still missing."""
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
                threads = self._threads
            self._show(self._sources.command(away, None, PATIENCE, threads=threads))

    def _show(self, answers: Sequence[Reply[StopReport]]) -> None:
        came = [
            answer
            for answer in answers
            if isinstance(answer, Silence) or answer.value.state != "running"
        ]
        with self._lock:
            came = [answer for answer in came if answer.rank.process in self._away]
            for answer in came:
                del self._away[answer.rank.process]
        if came and not self._closed.is_set():
            outputs = CastOutputs(came, self._all_ranks)
            self._lines.show_late(lambda: print_cast(self._terminal, outputs))
