"""work_waits.py: of ranks that wait at sockets of their own, who owes something, and who only has no
work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankdbg.types import Frame, ProcessKey, Rank, Stack
from rankdbg.verdicts.hangs.evidence import Evidence, Seen
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from rankdbg.verdicts.hangs.judgement import Verdict, judge
from rankdbg.verdicts.waits.wait_chains import OwnerEvidence
from rankdbg.wire.answers import ThreadOwner, ThreadWaits, Vitals, WaitingThread
from rankdbg.wire.node_answers import AwaitedThing, WaitingProcess, WaitOwners

RULES = load_hang_rules()
FRAMES = (Frame("exchange", "/job/train.py", 23), Frame("<module>", "/job/train.py", 9))
RECEIVES = {"call": "recvfrom", "on": "socket to 10.0.0.1:80"}
SLEEPS = {"call": "clock_nanosleep", "timer": 0.5}
TO_SERVER = AwaitedThing("connection", "socket to 10.0.0.9:443")


def seen(number: int, threads: int = 1, **wait: object) -> Seen:
    rank = Rank(ProcessKey("a", 100 + number, 1), "job", number=number)
    stacks = [Stack(f"thread {n}" if n else "MainThread", n == 0, FRAMES) for n in range(threads)]
    before = replace(Vitals(at=0.0, state="S", age=100.0, switches=5), **wait)  # type: ignore[arg-type]
    return Seen(rank, [tuple(stacks)] * 12, before=before, after=replace(before, at=9.0))


def verdict(
    waits: Mapping[int, int],
    last: Seen,
    unread: int = 0,
    things: tuple[AwaitedThing, ...] = (),
    child: ThreadWaits | None = None,
) -> Verdict:
    """`waits`: which rank receives from which; `last` receives from none of them. Those that wait
    have sent `unread` bytes that were not read. `child`: of `last`, with process id 7."""
    facts = [WaitingProcess(last.rank.pid, 1, "python", things=things), WaitingProcess(7, 1, "")]
    for who, whom in waits.items():
        thing = AwaitedThing("connection", "socket to 10.0.0.1:80", (100 + whom,), unread=unread)
        facts.append(WaitingProcess(100 + who, 1, "python", things=(thing,)))
    ranks = [last, *(seen(number, **RECEIVES) for number in waits)]
    told = {each.rank.process: WaitOwners(tuple(facts)) for each in ranks}
    threads = {} if child is None else {ProcessKey("a", 7, 1): child}
    return judge(Evidence(ranks, owners=OwnerEvidence(told, threads=threads)), RULES)


def culprit(found: Verdict) -> list[int | None]:
    return [rank.number for finding in found.findings for rank in finding.ranks]


STAR = {0: 2, 1: 0, 3: 0}  # rank 0 gathers, and rank 2 has not sent


@pytest.mark.parametrize(
    "wait",
    [
        SLEEPS,
        {"call": "read", "on": "pipe"},
        {"call": "write", "on": "pipe"},
        RECEIVES,
        {"call": "read", "on": "stdin, a pipe"},
    ],
    ids=lambda wait: f"{wait['call']} {wait.get('on', '')}",
)
def test_one_that_has_not_sent_its_part(wait: dict[str, object]) -> None:
    """Whatever it waits for: the rank that gathers waits for it."""
    found = verdict(STAR, seen(2, **wait))
    assert (found.state, culprit(found)) == ("stuck", [2])
    assert sorted(sign.seen.rank.number or 0 for sign in found.waiting) == [0, 1, 3]


def test_one_of_whose_threads_another_may_send() -> None:
    """The wait of its main thread says nothing about that."""
    assert verdict(STAR, seen(2, threads=2, **SLEEPS)).state == "idle"


@given(
    parents=st.lists(st.integers(0, 10), max_size=10),
    wait=st.sampled_from([SLEEPS, RECEIVES, {"call": "read", "on": "pipe"}]),
)
def test_ranks_to_which_rank_0_hands_out_work(parents: list[int], wait: dict[str, object]) -> None:
    """Through any tree of ranks: they are idle while it has none."""
    waits = {number: parent % number for number, parent in enumerate(parents, 1)}
    assert verdict(waits, seen(0, **wait)).state == "idle"


@given(parents=st.lists(st.integers(0, 10), min_size=1, max_size=10))
def test_rank_0_that_cannot_write(parents: list[int]) -> None:
    """To write is not to wait for work."""
    waits = {number: parent % number for number, parent in enumerate(parents, 1)}
    found = verdict(waits, seen(0, call="write", on="pipe"))
    assert (found.state, culprit(found)) == ("stuck", [0])


@pytest.mark.parametrize(
    ("unread", "accepted", "state"),
    [(8, False, "stuck"), (0, False, "idle"), (8, True, "idle")],
)
def test_rank_0_that_waits_for_a_server(unread: int, accepted: bool, state: str) -> None:
    """With data of others that it has not read it is not at leisure; who has connected to it may
    bring work."""
    thing = replace(TO_SERVER, accepted=accepted)
    found = verdict({1: 0, 2: 0, 3: 0}, seen(0, **RECEIVES), unread, (thing,))
    assert found.state == state
    assert culprit(found) == ([0] if state == "stuck" else [])


TO_CHILD = AwaitedThing("pipe", "a pipe", (7,))


@pytest.mark.parametrize("forked", [True, False])
def test_rank_whose_child_waits_for_a_lock(forked: bool) -> None:
    """One that a fork has copied is never released. One that a thread of the child holds is: it may be
    a server's, between two requests."""
    owners = () if forked else (ThreadOwner(2, "with"),)
    main = WaitingThread(1, "MainThread", main=True, kind="lock", held=True, owners=owners)
    child = ThreadWaits((main, WaitingThread(2, "flush")), forked=forked)
    found = verdict({1: 0}, seen(0, call="read", on="pipe"), things=(TO_CHILD,), child=child)
    assert found.state == ("stuck" if forked else "idle")
    causes = [(finding.cause, culprit(found)) for finding in found.findings]
    assert causes == ([("fork-with-lock", [0])] if forked else [])
