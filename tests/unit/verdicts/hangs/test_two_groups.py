"""Ranks in collectives of two groups: some wait for each other, or for others that go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.collectives.culprits import judge as judge_collectives
from rankdbg.verdicts.collectives.traces import Operation, Trace
from rankdbg.verdicts.collectives.worlds import World
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from rankdbg.verdicts.hangs.judgement import Verdict, judge
from rankdbg.verdicts.hangs.left_order import name_departed
from rankdbg.verdicts.histories.departures import Departure
from rankdbg.wire.answers import Vitals

NOW = 1000.0
ALL, TRAINING = (0, 1, 2, 3, 4), (2, 3, 4)
SAYS = "barrier; the others: all_reduce"
TORCH = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
IN_CALL = Stack("MainThread", True, (Frame("all_reduce", TORCH, 9), Frame("step", "/job/a.py", 3)))
IN_SLEEP = Stack("MainThread", True, (Frame("load", "/job/a.py", 7), Frame("step", "/job/a.py", 3)))
ASLEEP = Vitals(at=0.0, state="S", call="futex", age=100.0, asleep=60.0)
LATER = replace(ASLEEP, at=10.0)
RANKS = [Rank(ProcessKey("node-1", 100 + n, 1), "job", number=n, world=5) for n in ALL]


def trace(rank: int, calls: str, ago: float = 60.0) -> Trace:
    """`a`: an all_reduce of the ranks that train, `b`: a barrier of all; the last is under way, for so
    many seconds, and there was one a second."""
    groups = {"a": "1", "b": "0"}
    operations = tuple(
        Operation(
            groups[call],
            "all_reduce" if call == "a" else "barrier",
            calls[: record + 1].count(call),
            point_to_point=False,
            finished=record < len(calls) - 1,
            created=round(1e9 * (NOW - ago - (len(calls) - 1 - record))),
            record=record,
        )
        for record, call in enumerate(calls)
    )
    members = {"0": ALL, "1": TRAINING} if rank in TRAINING else {"0": ALL}
    return Trace(rank, operations, members, now=round(1e9 * NOW))


def verdict(*calls: str) -> Verdict:
    """Of ranks that have stood in the last of their calls for a minute."""
    return judged([trace(rank, each) for rank, each in enumerate(calls)])


def judged(traces: list[Trace], **more: object) -> Verdict:
    """`more`: of rank 3, which waits in a sleep."""
    world = World(judge_collectives(traces), dict(enumerate(RANKS)))
    seen = [Seen(rank, [(IN_CALL,)] * 9, before=ASLEEP, after=LATER) for rank in RANKS]
    if more:
        after = replace(LATER, call="clock_nanosleep", timer=0.0, switches=9)
        seen[3] = replace(seen[3], samples=[(IN_SLEEP,)] * 9, **{"after": after, **more})
    return judge(Evidence(seen, worlds=[world]), load_hang_rules())


def named(verdict: Verdict) -> tuple[list[int | None], list[int | None]]:
    """The accused, and those that wait for them."""
    accused = [rank.number for rank in verdict.findings[0].ranks]
    return accused, sorted(sign.seen.rank.number or 0 for sign in verdict.waiting)


def departure(ranks: tuple[int, ...], others: tuple[int, ...]) -> Departure:
    return Departure(8, tuple(RANKS[n] for n in ranks), tuple(RANKS[n] for n in others))


UNDECIDED = ("b", "b", "aaaa", "aaab", "aaaa")  # it is the first barrier


def test_recorders_alone_do_not_tell() -> None:
    found = verdict(*UNDECIDED)
    culprit = found.findings[0].culprit
    assert found.stuck and culprit is not None and culprit.is_undecided
    assert named(found) == ([2, 4], [0, 1, 3])


def test_the_one_that_left_the_others_is_the_culprit() -> None:
    """Those that it has left wait for it, whoever waits for these."""
    found = name_departed(verdict(*UNDECIDED), departure((3,), (2, 4)), SAYS)
    assert named(found) == ([3], [0, 1, 2, 4])
    first = found.findings[0]
    assert (first.cause, first.says) == ("collective-mismatch", f"left the common order: {SAYS}")
    assert [sign.seen.rank.number for sign in first.signs] == [3]


@pytest.mark.parametrize("left", [((0,), (1, 3)), ((2, 4), (3,))])
def test_other_departures_change_nothing(left: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """One that was not from the accused, and one that names the same ranks."""
    before = verdict(*UNDECIDED)
    assert name_departed(before, departure(*left), SAYS) == before


def test_what_recorders_tell_stands() -> None:
    """Before each barrier there were two all_reduces: rank 3 has left one out."""
    before = verdict("bbbb", "bbbb", "aabaabaabaa", "aabaabaabab", "aabaabaabaa")
    assert named(before)[0] == [3]
    assert name_departed(before, departure((2,), (3, 4)), SAYS) == before


# Ranks 0 and 1 wait in the barrier at the end of an epoch; rank 3 is slow, and 2 and 4 wait for it.
SLOW = [trace(0, "b"), trace(1, "b"), *(trace(n, "aaaaaaaa", 2.0) for n in (2, 4))]


def slow(since_last: float) -> list[Trace]:
    """`since_last`: since the rank entered its last all_reduce, which has ended."""
    last = trace(3, "aaaaaaa", since_last)
    done = tuple(replace(each, finished=True) for each in last.operations)
    return [*SLOW[:3], replace(last, operations=done), SLOW[3]]


def test_ranks_that_do_steps_are_not_accused() -> None:
    """However long others wait for them."""
    found = judged(slow(60.0), entered_more=True)
    assert (found.state, found.findings) == ("moving", ())
    assert judged(slow(60.0), stepped=True).state == "moving"


def test_collectives_of_another_thread_are_no_steps() -> None:
    """The main thread has not run."""
    found = judged(slow(60.0), entered_more=True, after=replace(LATER, call="read", on="/data/x"))
    assert found.stuck and named(found)[0] == [3]


@pytest.mark.parametrize(("seconds", "stuck"), [(3.0, False), (60.0, True)])
def test_time_counts_since_the_last_call(seconds: float, stuck: bool) -> None:
    """It has called something since others began to wait: so long it may compute."""
    found = judged(slow(seconds), after=replace(LATER, call="read", on="/data/x"))
    assert found.stuck is stuck
    assert not stuck or named(found)[0] == [3]
