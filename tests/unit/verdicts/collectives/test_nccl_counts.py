"""NCCL's counts -> who is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.collectives.nccl_counts import traces_of
from rankdbg.verdicts.collectives.worlds import World, judge_worlds
from rankdbg.wire.node_answers import NcclCommunicator, NcclRank

HOSTS = ("10.0.0.5", "10.0.0.6")


def ranks(count: int) -> list[Rank]:
    """On two nodes, whose names are not their addresses; pids are equal on both."""
    return [
        Rank(
            ProcessKey(f"node-{n // 2}", 100 + n % 2 if n else 99, 1),
            "train",
            number=n,
            kind="rank",
        )
        for n in range(count)
    ]


def communicator(*counts: int, operation: str = "AllReduce") -> NcclCommunicator:
    members = (
        NcclRank(n, HOSTS[n // 2], rank.pid, {operation: count, "Broadcast": 1})
        for n, (rank, count) in enumerate(zip(ranks(len(counts)), counts, strict=True))
    )
    return NcclCommunicator("27a0", len(counts), tuple(members))


def judged(before: NcclCommunicator, after: NcclCommunicator, count: int = 4) -> list[World]:
    return judge_worlds(traces_of([before], [after], ranks(count)))


def test_those_that_launched_fewer_are_missing() -> None:
    hung = communicator(8, 8, 8, 7)
    (world,) = judged(hung, hung)
    (culprit,) = world.findings.culprits
    assert (culprit.ranks, culprit.waiting, culprit.reason) == ((3,), (0, 1, 2), "missing")
    assert culprit.operation.name == "all_reduce"
    assert culprit.operation.number == 8
    assert {rank.host for rank in world.of(culprit.ranks)} == {"node-1"}


@pytest.mark.parametrize("after", [(8, 8, 8, 8), (9, 9, 9, 8)])
def test_counts_that_change_are_at_work(after: tuple[int, ...]) -> None:
    """Ranks of a healthy job launch at different moments, and NCCL asks them one after another."""
    assert judged(communicator(8, 8, 8, 7), communicator(*after)) == []


def test_equal_counts_say_nothing() -> None:
    same = communicator(8, 8, 8, 8)
    assert judged(same, same) == []


def test_a_rank_that_is_not_known_decides_nothing() -> None:
    """A communicator of another job on the same nodes, or a rank that was not looked at."""
    hung = communicator(8, 8, 8, 7)
    assert judged(hung, hung, count=3) == []


def test_text_of_older_versions_names_only_the_fewer() -> None:
    few = communicator(7, 8, 8, 8).ranks[:1]
    told = NcclCommunicator("27a0", 4, few, most={"AllReduce": 8})
    (world,) = judged(told, told)
    assert world.findings.culprit_ranks == (0,)
    # Of a communicator of some ranks only, the others are not known.
    assert judged(replace(told, size=2), replace(told, size=2)) == []


def test_a_process_that_may_be_one_of_two_decides_nothing() -> None:
    """Its number is that of a process on another node too, and nothing ties its address to one."""
    few = communicator(8, 8, 8, 7).ranks[3:]
    told = NcclCommunicator("27a0", 4, few, most={"AllReduce": 8})
    assert judged(told, told) == []
