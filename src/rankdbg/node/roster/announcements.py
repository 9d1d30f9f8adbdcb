"""Announcements of stops by agents, on connections that stay open.

An agent sends an announcement when all its stops wait for a command, and an empty one before
a thread continues (agent/announcing.py). The socket is read before an announcement is used, so
that it is as current as an answer; without an announcement, the agent is asked.
"""

from __future__ import annotations

import os
import resource
import selectors
import threading
import time
from collections.abc import Iterable, Iterator

from rankdbg import wire
from rankdbg.errors import RankdbgError
from rankdbg.node import relay
from rankdbg.node.roster.found_processes import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Any

_QUESTION = {"id": 1, "ask": "watch"}
# An agent that sends more than this is dropped.
_LONGEST = 1 << 20
_PORTION, _MOST_PORTIONS = 1 << 18, 16
# How often the source files of stops are looked at.
SOURCES_SECONDS = 1.0


class _Watched:
    def __init__(self, connection: socket, process: Process) -> None:
        self.connection = connection
        self.key = process.key
        self.lines = wire.Lines(_LONGEST)
        self.announced: dict[str, Any] = {}
        self.count = 0  # of announcements, also of empty ones

    def read(self) -> bool:
        """Read all received data; returns whether more may follow."""
        try:
            for _ in range(_MOST_PORTIONS):
                data = self.connection.recv(_PORTION)
                if not data:
                    break
                for line in self.lines.feed(data):
                    self._take(wire.decode(line))
        except BlockingIOError:
            return True
        except (OSError, RankdbgError):
            pass
        self.announced = {}
        return False

    def _take(self, message: wire.Message) -> None:
        """An older agent returns an error for this question."""
        announced: Any = message.get("announced")
        self.count += announced is not None
        self.announced = announced if _is_whole(announced) else {}


def _is_whole(announced: object) -> bool:
    match announced:
        case {"labels": dict(), "modules": int(), "in_flight": list(), "stops": [*stops]}:
            return all(type(stop) is dict and _are_sources(stop.get("sources")) for stop in stops)
    return False


def _are_sources(entries: object) -> bool:
    return isinstance(entries, list) and all(
        type(entry) is dict and type(entry.get("file")) is str and "identity" in entry
        for entry in entries
    )


class Announcements:
    """For one service, which has several threads."""

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}  # by the path of the agent's socket
        self._selector: selectors.BaseSelector | None = None
        self._lock = threading.Lock()
        self._looks_at_sources = False
        self.changes = 0  # counts everything that may make an answer different
        # The other descriptors are for questions and for idle connections (relay).
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4

    def watch(self, found: Iterable[Process]) -> None:
        """Subscribe to the stops of these processes, and drop those that are gone."""
        with self._lock:
            self._read()
            wanted = {p.socket: p for p in found if p.socket and p.alive}
            for path in [path for path in self._watched if path not in wanted]:
                self._drop(path)
            for path, process in wanted.items():
                if path not in self._watched and len(self._watched) < self._most:
                    self._begin(path, process)
            if self._watched and not self._looks_at_sources:
                self._looks_at_sources = True
                threading.Thread(target=self._look_at_sources, daemon=True).start()

    def read(self) -> None:
        """Read everything received so far."""
        with self._lock:
            self._read()

    def of(self, process: Process) -> dict[str, Any]:
        """The announcement of a running process; empty if its agent must be asked."""
        watched = self._watched.get(process.socket)
        return watched.announced if watched and watched.key == process.key else {}

    def count(self, process: Process) -> int | None:
        """The number of announcements of the process; None if it does not announce. While it does
        not change, no thread has stopped."""
        watched = self._watched.get(process.socket)
        return watched.count if watched and watched.key == process.key else None

    def _begin(self, path: str, process: Process) -> None:
        try:
            connection = relay.connect(path)
        except (OSError, relay.Foreign):  # the question that follows says why
            return
        try:
            connection.send(wire.encode(wire.hello()) + wire.encode(_QUESTION))
        except OSError:
            connection.close()
            return
        if self._selector is None:
            self._selector = selectors.DefaultSelector()
        self._watched[path] = _Watched(connection, process)
        self.changes += 1
        self._selector.register(connection, selectors.EVENT_READ, path)

    def _look_at_sources(self) -> None:
        """Where a source file of a stop has changed since the announcement, its agent reports
        more. In a thread of its own: a file system that is gone lets nothing else wait."""
        while True:
            time.sleep(SOURCES_SECONDS)
            with self._lock:
                said = [watched.announced for watched in self._watched.values()]
            files = {file for announced in said for file, _ in _sources(announced)}
            now = {file: _identity(file) for file in files}
            with self._lock:
                for watched in self._watched.values():
                    if any(now.get(file, was) != was for file, was in _sources(watched.announced)):
                        watched.announced = {}
                        self.changes += 1

    def _read(self) -> None:
        if self._selector is None:
            return
        for entry, _ in self._selector.select(0):
            self.changes += 1
            if not self._watched[entry.data].read():
                self._drop(entry.data)

    def _drop(self, path: str) -> None:
        watched = self._watched.pop(path)
        self.changes += 1
        assert self._selector is not None
        self._selector.unregister(watched.connection)
        watched.connection.close()


def _sources(announced: dict[str, Any]) -> Iterator[tuple[str, list[int]]]:
    """The files of its stops that were on disk, and the state of each at the announcement."""
    for stop in announced.get("stops", ()):
        for entry in stop["sources"]:
            if entry["identity"] is not None:
                yield entry["file"], entry["identity"]


def _identity(file: str) -> list[int] | None:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]
