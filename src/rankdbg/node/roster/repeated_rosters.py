"""A roster that is asked for again, as a shell does: while nothing has changed, the node says just
that, and the client has the answer already.

Nothing has changed while every process of the last answer is in the same state, no directory of
agents and no list of processes is different, and no agent has announced anything. Ranks that do
not announce (they run) are asked each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from rankdbg.node.inquiry import Key
from rankdbg.node.machine import processes
from rankdbg.node.roster.announcements import Announcements
from rankdbg.node.roster.found_processes import Process
from rankdbg.node.roster.scans import Scans
from rankdbg.wire.node_questions import ListProcesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from rankdbg.process.named_tuples import NamedTuple

# Without them, it is the same question.
_OF_ONE_TIME = ("id", "timeout", "seen")
_MOST = 8  # questions: with and without stops, of a few jobs
States = list[tuple[int, object]]
Known = dict[Key, Process]


class Moment(NamedTuple):
    """What an answer is made of, before anything is read for it."""

    announcements: int
    states: States


class _LastAnswer(NamedTuple):
    version: str
    moment: Moment
    known: Known


class RepeatedRosters:
    def __init__(self, scans: Scans, announcements: Announcements) -> None:
        self._scans = scans
        self._announcements = announcements
        self._last: dict[str, _LastAnswer] = {}
        self._name = os.urandom(6).hex()  # of this node process
        self._count = 0

    def unchanged(self, question: ListProcesses) -> Known | None:
        """The processes of the answer that the client has `seen`, if it is still the right one."""
        last = self._last.get(_key(question))
        if last is None or last.version != question.seen:
            return None
        self._announcements.read()
        same = (
            self._announcements.changes == last.moment.announcements
            and self._scans.nothing_new()
            and all(_state(pid) == state for pid, state in last.moment.states)
        )
        return last.known if same else None

    def moment(self, found: Iterable[Process]) -> Moment:
        changes = self._announcements.changes
        return Moment(changes, [(process.pid, _state(process.pid)) for process in found])

    def keep(self, question: ListProcesses, moment: Moment, known: Known) -> str:
        """The name of this answer, for the next time."""
        if len(self._last) >= _MOST:
            self._last.clear()
        self._count += 1
        version = f"{self._name}-{self._count}"
        self._last[_key(question)] = _LastAnswer(version, moment, known)
        return version


def _key(question: ListProcesses) -> str:
    same = {k: v for k, v in question.message().items() if k not in _OF_ONE_TIME}
    return repr(sorted(same.items()))


def _state(pid: int) -> object:
    """None if there is no such process. Sleeping and running are one."""
    stat = processes.read_stat(pid)
    return stat and (stat.start, stat.state in "SRI" or stat.state, stat.exiting)
