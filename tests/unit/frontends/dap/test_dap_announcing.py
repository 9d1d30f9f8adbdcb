"""frontends/dap/announcing: a rank that has not come back from a step is told of, once it is seen."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from rankdbg.errors import NodeFailed
from rankdbg.frontends.dap import announcing
from rankdbg.frontends.dap.announcing import Announcer
from rankdbg.frontends.dap.child import ChildSession
from rankdbg.types import Frame, ProcessKey, Rank, Sampled, Stack
from waiting import wait_for

RANK = Rank(ProcessKey("node", 41, 1), "train", 0)
SEEN = Sampled(
    RANK, ((Stack("MainThread", True, (Frame("all_reduce", "/c10d.py", 7),)),),), source="agent"
)


ON_ITS_WAY = Sampled(
    RANK,
    tuple((Stack("MainThread", True, (Frame("train", "/train.py", line),)),) for line in (3, 4)),
    source="agent",
)


class Job:
    """Of one rank, which is seen so at one look after the other."""

    rank, is_stopped, name = RANK, False, "rank 0"

    def __init__(self, *outcomes: Any) -> None:
        self.session: Any = self
        self.all_ranks = [RANK]
        self.told: list[str] = []
        self._outcomes = [*outcomes]

    def stacks(self, ranks: Any, samples: int) -> Any:
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def children(self) -> list[Any]:
        return [self]

    def asking(self) -> Any:
        return threading.RLock()

    def print(self, text: str) -> None:
        self.told.append(text)


@pytest.mark.parametrize(
    ("outcomes", "place"),
    [
        ((NodeFailed("busy"), ([], [RANK]), ([SEEN], [])), "at c10d.py:7"),
        ((([ON_ITS_WAY], []), ([SEEN], [])), "at c10d.py:7"),
        ((([ON_ITS_WAY], []), ([ON_ITS_WAY], [])), "at train.py:4"),
        ((([Sampled(RANK, ((),), "py-spy")], []), ([SEEN], [])), "at c10d.py:7"),
    ],
)
def test_seen_at_a_later_look(
    monkeypatch: pytest.MonkeyPatch, outcomes: tuple[Any, ...], place: str
) -> None:
    """One that could not be seen, and once more one that was on its way."""
    monkeypatch.setattr(announcing, "STEP_SECONDS", 0.01)
    job = Job(*outcomes)
    Announcer(job).expect([RANK])
    wait_for(lambda: job.told, "a word")
    assert job.told == [f"rank 0 has not returned from a step: {place}"]


def test_a_step_that_follows_at_once() -> None:
    """What the editor answers to a stop is not over with that stop."""
    heard: list[str] = []

    class Around:
        def stopped(self, child: ChildSession, event: dict[str, Any]) -> None:
            heard.append("announcer")

        def keeps_focus(self, child: ChildSession) -> bool:
            return False

    class Editor:
        def send_body(self, body: bytes) -> None:
            heard.append("editor")

    child = ChildSession(RANK, "rank 0", "key", cast(Any, Around()))
    child.client = cast(Any, Editor())
    child._from_rank({"type": "event", "event": "stopped", "body": {"threadId": 1}}, b"{}")
    assert heard == ["announcer", "editor"]


def test_a_later_step_has_a_look_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that steps again just before the look for its last step is not missing."""
    looks: list[Any] = []
    monkeypatch.setattr(announcing, "_later", lambda seconds, look: looks.append(look))
    now = 100.0
    monkeypatch.setattr(announcing.time, "monotonic", lambda: now)
    job = Job(([SEEN], []))
    announcer = Announcer(job)
    announcer.expect([RANK])
    now += announcing.STEP_SECONDS - 0.1
    announcer.expect([RANK])
    now += 0.1
    looks[0]()
    assert job.told == []
    now += announcing.STEP_SECONDS - 0.1
    looks[1]()
    assert job.told == ["rank 0 has not returned from a step: at c10d.py:7"]
