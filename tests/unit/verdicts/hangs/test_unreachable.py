"""Ranks that get no answer from each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from rankdbg.verdicts.hangs.judgement import judge
from rankdbg.verdicts.waits.unanswered import Unanswered, between, fewest
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
        ([(1, 0)], [1], "gets no answer from rank 0 at 10.9.0.0:4000"),
        ([(0, 1), (1, 0)], [0, 1], "rank 0 gets no answer from rank 1 at 10.9.0.1:4000"),
        ([(3, 0), (3, 1)], [3], "gets no answer from rank 0 at 10.9.0.0:4000"),
        ([(1, 0), (2, 0)], [0], "does not answer ranks 1-2 at 10.9.0.0:4000"),
        ([(1, 2), (2, 1), (2, 3), (3, 2)], [2], "gets no answer from rank 1 at 10.9.0.1:4000"),
        ([(0, 1), (2, 3)], [0, 2], "rank 0 gets no answer from rank 1 at 10.9.0.1:4000"),
    ],
    ids=["connects", "each other", "from none", "to none", "a link is down", "several"],
)
def test_what_all_connections_have_in_common(
    pairs: list[tuple[int, int]], accused: list[int], says: str
) -> None:
    ranks = [seen(number, JOINS) for number in range(4)]
    verdict = judge(Evidence(ranks, unanswered=unanswered(*pairs)), RULES)
    (finding,) = verdict.findings
    assert (finding.cause, [r.number for r in finding.ranks]) == ("rank-unreachable", accused)
    assert finding.says == f"{says}, in <module> train.py:9"
    assert [sign.seen.rank.number for sign in verdict.waiting] == [
        number for number in range(4) if number not in accused
    ]


def test_a_node_whose_link_is_down() -> None:
    """All of its ranks that take part, of two nodes with two ranks each and a third."""
    places = ("node-0", "node-0", "node-1", "node-1", "node-2")
    ranks = [
        replace(rank(number), process=ProcessKey(host, number, 1))
        for number, host in enumerate(places)
    ]
    pairs = [(0, 2), (3, 1), (2, 4), (4, 3)]
    links = [Unanswered(ranks[who], f"10.9.0.{whom}:4000", ranks[whom]) for who, whom in pairs]
    assert {each.number for each in fewest(links)} == {2, 3}


def test_a_rank_that_does_something_else() -> None:
    """Is what holds the others up: while it has not come, nobody may answer in its place."""
    ranks = [*(seen(number, JOINS) for number in range(3)), seen(3, SLEEPS)]
    verdict = judge(Evidence(ranks, unanswered=unanswered((1, 0))), RULES)
    assert [r.number for r in verdict.findings[0].ranks] == [3]


@pytest.mark.parametrize("pair", [(3, 0), (0, 3)])
def test_a_rank_that_is_not_seen_after_the_look_at_connections(pair: tuple[int, int]) -> None:
    """It has ended, or its node gives no response any more: nothing is known of it by then."""
    ranks = [seen(number, JOINS) for number in range(3)]
    links = unanswered(pair)
    verdict = judge(Evidence(ranks, unseen_nodes=["node-3"], unanswered=links), RULES)
    assert not verdict.findings
    verdict = judge(Evidence(ranks, gone=[RANKS[3]], unanswered=links), RULES)
    assert [(f.cause, [r.number for r in f.ranks]) for f in verdict.findings] == [
        ("rank-died", [3])
    ]


def test_what_is_no_connection_between_ranks() -> None:
    """Telemetry; and the loopback of one machine is not that of another."""
    me = "10.9.0.1:50000"
    listens = Addresses(listening=("10.9.0.0:4000", "127.0.0.1:5000"))
    calls = Addresses(((me, "10.9.0.0:4000"), (me, "127.0.0.1:5000"), (me, "192.0.2.7:443")))
    found = between([(RANKS[0], listens), (RANKS[1], calls)], {})
    assert found == [Unanswered(RANKS[1], "10.9.0.0:4000", RANKS[0])]
    same = replace(RANKS[1], process=ProcessKey("node-0", 101, 1))
    found = between([(RANKS[0], listens), (same, calls)], {})
    assert [each.address for each in found] == ["10.9.0.0:4000", "127.0.0.1:5000"]


def test_the_rank_at_the_other_end() -> None:
    """Of a connection that it has made itself, by an address at which it does not listen."""
    has_sent = Addresses((("10.9.0.0:4000", "10.9.0.1:50000"),), ("10.9.0.0:4000",))
    ends = {("10.9.0.1:50000", "10.9.0.0:4000"): RANKS[1]}
    found = between([(RANKS[0], has_sent), (RANKS[1], Addresses())], ends)
    assert found == [Unanswered(RANKS[0], "10.9.0.1:50000", RANKS[1])]
