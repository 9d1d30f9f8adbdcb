"""Breakpoints of all ranks take effect together.

Sessions that are opened together are held back until each is configured (held_breakpoints.py). Then
each rank is given its breakpoints, behind a gate; and the gates of all ranks are opened at a step
that none of them has reached (investigations/stops/breaks.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from rankdbg.errors import RankdbgError
from rankdbg.frontends.dap.child import ChildSession
from rankdbg.investigations.stops.breaks import open_gates
from rankdbg.process.identity import WAITS_FOR_EDITOR
from rankdbg.session import Session
from rankdbg.types import ProcessKey, Rank
from rankdbg.wire.questions import ReleaseFromWait

# How long the breakpoints of a rank that is ready wait for ranks that are not.
CONFIGURING_SECONDS = 15.0
# How long gates wait for ranks that have not received their breakpoints: less than a closed gate.
ARMING_SECONDS = 5.0
# The same for breakpoints that are set later: an editor may set them in one rank only.
CHANGING_SECONDS = 0.3


class ArmedJob(Protocol):
    session: Session
    all_ranks: list[Rank]

    @property
    def is_leaving(self) -> bool: ...

    def children(self) -> list[ChildSession]: ...

    def asking(self) -> Any: ...


class Arming:
    def __init__(self, job: ArmedJob) -> None:
        self._job = job
        self._news = threading.Condition()
        self._opening = threading.Lock()
        self._configured: set[ProcessKey] = set()
        self._armed: set[ProcessKey] = set()
        self._behind_gates: dict[ProcessKey, ChildSession] = {}

    def begin(self) -> None:
        """A new editor has attached."""
        with self._news:
            self._configured.clear()
            self._armed.clear()
            self._behind_gates.clear()

    # --- called for the sessions ----------------------------------------------------------------

    def configured(self, child: ChildSession) -> None:
        self._note(lambda: self._configured.add(child.rank.process))
        _start(self._arm, child)

    def armed(self, child: ChildSession) -> None:
        """Its rank has the initial breakpoints."""

        def note() -> None:
            self._armed.add(child.rank.process)
            self._behind_gates[child.rank.process] = child

        self._note(note)
        _start(self._begin_armed, child)

    def changed(self, child: ChildSession) -> None:
        """Its rank has breakpoints that were set later."""
        self._note(lambda: self._behind_gates.update({child.rank.process: child}))
        _start(self._open_changed)

    def over(self, child: ChildSession) -> None:
        """Its rank is not waited for."""

        def note() -> None:
            self._configured.discard(child.rank.process)
            self._armed.discard(child.rank.process)
            self._behind_gates.pop(child.rank.process, None)

        self._note(note)

    def _note(self, change: Callable[[], Any]) -> None:
        with self._news:
            change()
            self._news.notify_all()

    # --- each in a thread of its own ------------------------------------------------------------

    def _arm(self, child: ChildSession) -> None:
        self._wait_for_all(self._configured, CONFIGURING_SECONDS)
        child.arm()

    def _begin_armed(self, child: ChildSession) -> None:
        """Open its breakpoints, then release a rank that waits before its first line."""
        self._wait_for_all(self._armed, ARMING_SECONDS)
        self._open_gates()
        child.report_armed()
        self._release_from_wait([child.rank])
        self.release_those_without_session()

    def _open_changed(self) -> None:
        self._wait_for_all(self._behind_gates, CHANGING_SECONDS)
        self._open_gates()

    def _wait_for_all(
        self, ready: set[ProcessKey] | dict[ProcessKey, ChildSession], seconds: float
    ) -> None:
        """Until all sessions that were offered are ready."""

        def are_ready() -> bool:
            children = [] if self._job.is_leaving else self._job.children()
            return all(child.parked or child.rank.process in ready for child in children)

        with self._news:
            self._news.wait_for(are_ready, seconds)

    def _open_gates(self) -> None:
        """Returns when the breakpoints of all sessions that waited are open."""
        with self._opening:
            with self._news:
                children = list(self._behind_gates.values())
                self._behind_gates.clear()
            if children:
                at_once = any(child.is_stopped for child in self._job.children())
                with suppress(RankdbgError), self._job.asking():
                    open_gates(self._job.session, [child.rank for child in children], at_once)

    # --- ranks that wait for an editor before their first line ------------------------------------

    def release_those_without_session(self) -> None:
        """Release ranks that wait for an editor but get no session: other ranks wait for them."""
        offered = {child.rank.process for child in self._job.children()}
        waiting = [rank for rank in self._job.all_ranks if rank.detail == WAITS_FOR_EDITOR]
        if others := [rank for rank in waiting if rank.process not in offered]:
            self._release_from_wait(others)

    def _release_from_wait(self, ranks: list[Rank]) -> None:
        with suppress(RankdbgError), self._job.asking():
            self._job.session.ask(ReleaseFromWait(), [rank for rank in ranks if rank.agent])


def _start(action: Callable[..., None], *about: ChildSession) -> None:
    threading.Thread(target=action, args=about, daemon=True).start()
