"""Whom an investigation asks again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rankdbg.investigations.hangs import HangInvestigation
from rankdbg.session import Session
from rankdbg.types import Answer, ProcessKey, Rank, Sampled, Silence, State
from rankdbg.wire.answers import Recorders, Vitals


def rank(number: int, state: State = "running") -> Rank:
    key = ProcessKey("node-1", 100 + number, 1)
    return Rank(key, "job", number=number, world=3, state=state, agent=True)


class Nodes:
    """What a session is asked, of which the agents of some ranks do not answer."""

    def __init__(self, *mute: int) -> None:
        self.mute = set(mute)
        self.asked: list[list[int | None]] = []

    def vitals(self, ranks: Sequence[Rank]) -> list[Any]:
        return [Answer(each, Vitals()) for each in ranks]

    def collectives(self, ranks: Sequence[Rank]) -> list[Any]:
        self.asked.append([each.number for each in ranks])
        return [
            Silence(each, "no response") if each.number in self.mute else Answer(each, Recorders())
            for each in ranks
        ]

    def stacks(self, ranks: Sequence[Rank], **_: object) -> tuple[list[Sampled], list[Silence]]:
        sources = ["py-spy" if each.number in self.mute else "agent" for each in ranks]
        return [Sampled(r, (), source) for r, source in zip(ranks, sources, strict=True)], []

    def nccl_states(self, ranks: Sequence[Rank]) -> list[Any]:
        return []

    def gpus(self) -> dict[str, Any]:
        return {}


def test_agents_that_do_not_answer() -> None:
    """Are not asked again, which would take a timeout each time, until one answers: neither one that
    was blocked in the roster, nor one that has not answered since."""
    ranks = [rank(0), rank(1), rank(2, "blocked")]
    nodes = Nodes(1, 2)
    investigation = HangInvestigation(cast(Session, nodes), ranks, ranks)
    investigation.watch(0.0, 1)
    assert nodes.asked == [[0, 1], [0]]
    nodes.mute = {2}
    investigation.watch(0.0, 1)
    assert nodes.asked[2:] == [[0, 1]]
