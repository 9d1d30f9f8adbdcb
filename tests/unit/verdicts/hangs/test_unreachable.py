"""Ranks that get no answer from each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from rankdbg.verdicts.hangs.judgement import judge
from rankdbg.verdicts.hangs.unanswered import Unanswered, between
from rankdbg.wire.answers import Vitals
from rankdbg.wire.node_answers import Addresses

RULES = load_hang_rules()
TORCH = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
JOINS = (Frame("init_process_group", TORCH, 1769), Frame("<module>", "/job/train.py", 9))
SLEEPS = (Frame("load", "/job/data.py", 31), Frame("<module>", "/job/train.py", 5))


def rank(number: int) -> Rank:
    return Rank(ProcessKey(f"node-{number}", 100, 1), "job", number, world=4, agent=True)


RANKS = [rank(number) for number in range(4)]


def unanswered(*pairs: tuple[int, int]) -> list[Unanswered]:
    return [Unanswered(RANKS[who], f"10.9.0.{whom}:4000", RANKS[whom]) for who, whom in pairs]


def seen(number: int, frames: Sequence[Frame]) -> Seen:
    before = Vitals(at=0.0, state="S", call="futex", age=300.0, switches=5)
    sample = (Stack("MainThread", True, tuple(frames)),)
    return Seen(RANKS[number], [sample] * 9, before, replace(before, at=30.0), all_ranks=RANKS)


@pytest.mark.parametrize(
    ("pairs", "accused", "says"),
    [
        ([(1, 0)], [1], "gets no answer from 10.9.0.0:4000, where rank 0 listens"),
        ([(3, 0), (3, 1)], [3], "gets no answer from 10.9.0.0:4000, where rank 0 listens"),
        ([(1, 0), (2, 0)], [0], "does not answer at 10.9.0.0:4000, to which ranks 1-2 connect"),
        ([(2, 1), (3, 1)], [1], "does not answer at 10.9.0.1:4000, to which ranks 2-3 connect"),
    ],
)
def test_the_fewer_are_accused(pairs: list[tuple[int, int]], accused: list[int], says: str) -> None:
    """Of those that connect, and those that do not answer."""
    ranks = [seen(number, JOINS) for number in range(4)]
    verdict = judge(Evidence(ranks, unanswered=unanswered(*pairs)), RULES)
    (finding,) = verdict.findings
    assert (finding.cause, [r.number for r in finding.ranks]) == ("rank-unreachable", accused)
    assert finding.says == f"{says}, in <module> train.py:9"
    assert [sign.seen.rank.number for sign in verdict.waiting] == [
        number for number in range(4) if number not in accused
    ]


def test_a_rank_that_does_something_else() -> None:
    """Is what holds the others up: while it has not come, nobody may answer in its place."""
    ranks = [*(seen(number, JOINS) for number in range(3)), seen(3, SLEEPS)]
    verdict = judge(Evidence(ranks, unanswered=unanswered((1, 0))), RULES)
    assert [r.number for r in verdict.findings[0].ranks] == [3]


def test_what_is_no_connection_between_ranks() -> None:
    """Telemetry; and the loopback of one machine is not that of another."""
    listens = Addresses(listening=("10.9.0.0:4000", "127.0.0.1:5000"))
    calls = Addresses(unanswered=("10.9.0.0:4000", "127.0.0.1:5000", "192.0.2.7:443"))
    found = between([(RANKS[0], listens), (RANKS[1], calls)])
    assert found == [Unanswered(RANKS[1], "10.9.0.0:4000", RANKS[0])]
    same = replace(RANKS[1], process=ProcessKey("node-0", 101, 1))
    found = between([(RANKS[0], listens), (same, calls)])
    assert [each.address for each in found] == ["10.9.0.0:4000", "127.0.0.1:5000"]
