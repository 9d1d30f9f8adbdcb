"""frontends/dap/announcing: a rank that has not come back from a step is told of, once it is seen."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from rankdbg.errors import NodeFailed
from rankdbg.frontends.dap import announcing
from rankdbg.frontends.dap.announcing import Announcer
from rankdbg.types import Frame, ProcessKey, Rank, Sampled, Stack
from waiting import wait_for

RANK = Rank(ProcessKey("node", 41, 1), "train", 0)
SEEN = Sampled(
    RANK, ((Stack("MainThread", True, (Frame("all_reduce", "/c10d.py", 7),)),),), source="agent"
)


class Job:
    """Of one rank, which is seen at the third look."""

    def __init__(self) -> None:
        self.session: Any = self
        self.everybody = [RANK]
        self.told: list[str] = []
        self._outcomes: list[Any] = [NodeFailed("busy"), ([], [RANK]), ([SEEN], [])]

    def stacks(self, ranks: Any) -> Any:
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def children(self) -> list[Any]:
        return [self]

    rank, is_stopped = RANK, False

    def asking(self) -> Any:
        return threading.RLock()

    def print(self, text: str) -> None:
        self.told.append(text)


def test_seen_at_a_later_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "STEP_SECONDS", 0.01)
    job = Job()
    Announcer(job).expect([RANK])
    wait_for(lambda: job.told, "a word")
    assert job.told == ["rank 0 has not come back from a step: at c10d.py:7"]
