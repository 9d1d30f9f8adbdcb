"""Whom an investigation asks again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from rankdbg.investigations.hangs.hang_investigation import HangInvestigation
from rankdbg.session import Session
from rankdbg.types import Answer, ProcessKey, Rank, RunningKernel, Sampled, Silence, State
from rankdbg.wire.answers import Recorders, Vitals


def rank(number: int, state: State = "running") -> Rank:
    key = ProcessKey("node-1", 100 + number, 1)
    return Rank(key, "job", number=number, world=3, state=state, agent=True)


class Nodes:
    """What a session is asked, of which the agents of some ranks do not answer."""

    silent_nodes: tuple[str, ...] = ()

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

    def command_prefix(self, host: str) -> str:
        return ""

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


class OnGpu(Nodes):
    """Each look of cuda-gdb finds these launches; None: it fails."""

    def __init__(self, *launches: str | None) -> None:
        super().__init__()
        self.launches = list(launches)

    def stacks(
        self, ranks: Sequence[Rank], *, engine: str = "", **_: object
    ) -> tuple[list[Sampled], list[Silence]]:
        if engine != "cuda":
            return super().stacks(ranks)
        launch = self.launches.pop(0)
        if launch is None:
            return [Sampled(ranks[0], (), "agent", "cuda-gdb: it failed")], []
        kernels = (RunningKernel("spin", launch=launch),)
        return [Sampled(ranks[0], (), "cuda-gdb", kernels=kernels)], []


@pytest.mark.parametrize(
    ("launches", "says", "left"),
    [
        (["7 warp 1"] * 4, ["spin does not end"], 0),
        (
            ["7 warp 1", "8 warp 1", "8 warp 1", "8 warp 1"],
            ["spin had ended some seconds later"],
            2,
        ),
        (
            ["7 warp 1", "7 warp 1", "7 warp 3", "7 warp 1"],
            ["spin had ended some seconds later"],
            1,
        ),
        (["7 warp 1", None, None, None], ["spin runs"], 0),
        ([None, "7 warp 1"], [], 1),
    ],
    ids=["never ends", "next", "of a graph", "seen once", "not seen"],
)
def test_kernels_are_looked_at_until_they_have_ended(
    launches: list[str | None], says: list[str], left: int
) -> None:
    nodes = OnGpu(*launches)
    ranks = [rank(0), rank(1)]
    investigation = HangInvestigation(cast(Session, nodes), ranks, ranks)
    investigation.look_at_kernels(ranks[0], seconds=0.0, samples=1)
    seen = investigation.evidence().ranks[0]
    assert [kernel.sentence for kernel in seen.kernels] == says
    assert len(nodes.launches) == left
