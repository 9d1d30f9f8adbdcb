"""What the parent's console says by itself: who has stopped, where; and who has not returned
from a step."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from rankdbg import grouping
from rankdbg.errors import RankdbgError
from rankdbg.frontends.dap.child import ChildSession
from rankdbg.frontends.dap.protocol import Message
from rankdbg.investigations.rank_labels import label
from rankdbg.process.user_code import innermost_user_frame
from rankdbg.session import Session
from rankdbg.types import Frame, ProcessKey, Rank, Sampled

# Ranks that stop within this time at the same place are named together.
TOGETHER_SECONDS = 0.15
# A rank that has not stopped so long after a step waits for something: a collective.
STEP_SECONDS = 2.0


class AnnouncedJob(Protocol):
    session: Session
    all_ranks: list[Rank]

    def print(self, text: str) -> None: ...

    def children(self) -> list[ChildSession]: ...

    def asking(self) -> Any: ...


class Announcer:
    def __init__(self, job: AnnouncedJob) -> None:
        self._job = job
        self._lock = threading.Lock()
        self._arrived: list[tuple[Rank, str]] = []
        self._expected: dict[ProcessKey, tuple[Rank, float]] = {}  # and since when
        self._moved: set[ProcessKey] = set()  # moved at the last check

    # --- stopped ranks --------------------------------------------------------------------------

    def stopped(self, child: ChildSession, event: dict[str, Any]) -> None:
        """The end of a step is announced only if it took long: the editor shows it anyway."""
        in_time = self._expected.pop(child.rank.process, None) is not None
        reason = str(event.get("description") or event.get("reason") or "stopped")
        if event.get("reason") == "step" and in_time:
            return

        def then(response: Message) -> None:
            frames = (response.get("body") or {}).get("stackFrames") or []
            self._arrive(child.rank, f"stopped{_at(frames)} ({reason})")

        child.ask("stackTrace", {"threadId": event.get("threadId"), "levels": 1}, then)

    def _arrive(self, rank: Rank, what: str) -> None:
        with self._lock:
            self._arrived.append((rank, what))
            if len(self._arrived) == 1:
                _later(TOGETHER_SECONDS, self._tell)

    def _tell(self) -> None:
        with self._lock:
            arrived, self._arrived = self._arrived, []
        for what, ranks in grouping.group_equal(arrived):
            self._job.print(f"{named(ranks, self._job.all_ranks)} {what}")

    # --- steps without return -------------------------------------------------------------------

    def expect(self, ranks: Sequence[Rank]) -> None:
        """These ranks are stepping."""
        now = time.monotonic()
        self._expected.update({rank.process: (rank, now) for rank in ranks})
        _later(STEP_SECONDS, self._look_for_the_missing)

    def _look_for_the_missing(self) -> None:
        waiting = {child.rank.process for child in self._job.children() if not child.is_stopped}
        # A later step has its own timer.
        due = time.monotonic() - STEP_SECONDS
        # A copy: ranks stop and step meanwhile.
        expected = dict(self._expected)
        overdue = {key: rank for key, (rank, since) in expected.items() if since <= due}
        for key in overdue:
            self._expected.pop(key, None)  # announce it when one of these returns
        missing = [rank for key, rank in overdue.items() if key in waiting]
        if not missing:
            return
        seen: Sequence[Sampled] = ()
        with contextlib.suppress(RankdbgError), self._job.asking():
            seen, _ = self._job.session.stacks(missing, samples=2)
        moving = {each.rank.process for each in seen if len(set(each.main())) > 1} - self._moved
        places = [
            (each.rank, _position(each.main()[-1].frames))
            for each in seen
            if each.main() and each.rank.process not in moving
        ]
        shown = {rank.process for rank, _ in places}
        self._moved = moving
        if unseen := [rank for rank in missing if rank.process not in shown]:
            self.expect(unseen)  # on a busy machine this may take longer
        for where, ranks in grouping.group_equal(places):
            verb = "has" if len(ranks) == 1 else "have"
            who = named(ranks, self._job.all_ranks)
            self._job.print(f"{who} {verb} not returned from a step: {where}")


def named(ranks: Sequence[Rank], among: Sequence[Rank]) -> str:
    """As the subject of a sentence."""
    short = label(ranks, among)
    return short if short.startswith("pid") else f"rank{'s' * (len(ranks) > 1)} {short}"


def _at(frames: list[dict[str, Any]]) -> str:
    if not frames:
        return ""
    source = frames[0].get("source") or {}
    name = str(source.get("path") or source.get("name")).rpartition("/")[2]
    return f" at {name}:{frames[0].get('line')}"


def _position(frames: Sequence[Frame]) -> str:
    """The innermost function, and the line of user code that called it."""
    if not frames:
        return "running"
    innermost = frames[0]
    user = frames[innermost_user_frame(frame.file for frame in frames)]
    place = f"{user.file.rpartition('/')[2]}:{user.line}"
    return f"in {innermost.function}, {place}" if innermost != user else f"at {place}"


def _later(seconds: float, action: Any) -> None:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()
