"""Scans of this machine for processes of jobs, and the cached result of the last one.

Reading all processes and cards takes 10 to 50 ms of CPU time. A shell asks often, and usually
nothing has changed: an agent that starts, ends or gets a new name changes its directory, and a
new process without an agent has a new pid.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection

from rankdbg.node.machine import processes
from rankdbg.node.roster import discovery
from rankdbg.node.roster.found_processes import FoundProcesses, Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from rankdbg.process.named_tuples import NamedTuple

# Pids may be reused, and a process may change its title: a full scan after this time.
MOST_SECONDS = 10.0
# Directory times have a resolution of 4 to 10 ms: a recent change may not be the last.
_TICK = 50_000_000


class _Scan(NamedTuple):
    found: FoundProcesses
    others: frozenset[int]
    at: float  # the time of the last full scan
    directories: dict[str, object]  # the state of each before it was listed


class Scans:
    def __init__(self) -> None:
        self._last: _Scan | None = None

    def scan(self, others: Collection[int] = ()) -> FoundProcesses:
        """A full scan."""
        states = self._states()
        wanted, at = frozenset(others), time.monotonic()
        return self._keep(wanted, at, states, self._found(others))

    def _found(self, others: Collection[int]) -> FoundProcesses:
        return discovery.find_processes(others, self._last.found if self._last else None)

    def update(self, others: Collection[int] | None = None) -> FoundProcesses:
        """The same at lower cost. None: the same others as the last time."""
        last = self._last
        wanted = last.others if last and others is None else frozenset(others or ())
        if last is None or last.others != wanted or time.monotonic() - last.at > MOST_SECONDS:
            return self.scan(wanted)
        states = self._states()
        changed = [d for d, state in states.items() if state != last.directories[d]]
        return self._keep(wanted, last.at, states, discovery.find_more(last.found, wanted, changed))

    def nothing_new(self) -> bool:
        """Whether update() would find what the last scan has found."""
        last = self._last
        if last is None or time.monotonic() - last.at > MOST_SECONDS:
            return False
        if self._states() != last.directories:
            return False
        new = {*processes.all_pids()} - last.found.pids  # a busy machine has some all the time
        return not any(map(processes.is_python, new))

    def _states(self) -> dict[str, object]:
        """The states of the known directories, before they are listed."""
        return {d: _state(d) for d in (self._last.directories if self._last else ())}

    def _keep(
        self, others: frozenset[int], at: float, states: dict[str, object], found: FoundProcesses
    ) -> FoundProcesses:
        # A new directory may have changed while it was listed.
        directories = {d: states.get(d, time.monotonic_ns()) for d in found.directories}
        self._last = _Scan(found, others, at, directories)
        return found


def as_they_are_now(found: list[Process]) -> list[Process]:
    """Mutable copies. Killed processes may still have their files."""
    now = [process.copy() for process in found]
    for process in now:
        process.alive = processes.is_alive(process.pid, process.start)
    return [process for process in now if process.alive or process.files]


def _state(directory: str) -> object:
    """Equal states mean that nothing was added, removed or rewritten in between."""
    asked = time.time_ns()
    try:
        found = os.stat(directory)
    except OSError as error:
        return error.errno
    if asked - found.st_mtime_ns < _TICK:
        return time.monotonic_ns()
    return found.st_dev, found.st_ino, found.st_mtime_ns
