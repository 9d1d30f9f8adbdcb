"""`rankdbg why` on real jobs: who holds the others up and why; and nobody where nobody does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from hanging import HangingJob, HangingJobs, Start, parameters_after
from tiers import extra
from torch_ranks import needs_torch

pytestmark = [needs_torch, pytest.mark.slow]


@dataclass(frozen=True)
class Expected:
    """A program of programs/hangs, and what is to be said about it."""

    start: Start
    culprit: str
    causes: frozenset[str]  # any of these; none where it does not matter, since nothing is wrong
    stuck: bool = True


def hangs(program: str, culprit: str, *causes: str, **how: Any) -> Expected:
    """By default the program's name is the cause, and it has no more ranks than it needs: each
    of them has to load torch."""
    causes = causes or (program.replace("_", "-"),)
    how = {"ranks": str(max(2, int(culprit) + 1)), **how}
    return Expected(Start(program, **how), culprit, frozenset(causes))


def runs(program: str, *causes: str, **how: Any) -> Expected:
    return Expected(Start(program, **how), "", frozenset(causes), stuck=False)


TABLE = [
    # What a rank does instead of coming to a collective.
    hangs("data_loading", "2"),
    hangs("data_loading_in_worker", "1", "data-loading"),
    hangs("data_loader_worker", "2"),
    hangs("endless_loop", "2", busy=True),
    hangs("store_key_never_set", "1"),
    hangs("gil_held", "2", busy=True),
    hangs("lock_cycle", "1"),
    hangs("lock_cycle_alone", "0", "lock-cycle", ranks="1"),
    hangs("fork_with_lock", "2"),
    hangs("import_lock", "1"),
    hangs("event_loop_blocked", "1"),
    hangs("waits_for_child", "0"),
    hangs("spawn_join", "2", "waits-for-child"),
    hangs("child_died", "2"),
    # vfork, which stands in for a file system here, has a place of its own in the kernel.
    hangs("file_system", "1", "file-system", "uninterruptible"),
    hangs("stopped_by_signal", "0", ranks="3"),
    hangs("traced", "1"),
    hangs("forgotten_debugger", "1"),
    hangs("at_breakpoint", "2"),
    hangs("exit_blocked", "2"),
    hangs("garbage_collection", "2", busy=True),
    hangs("waits_for_network", "1", ranks="3"),
    hangs("waits_for_http", "3", "waits-for-network"),
    hangs("waits_for_queue", "0", torchrun=True),
    hangs("waits_for_input", "0"),
    hangs("file_lock", "1"),
    hangs("build_lock", "2"),
    hangs("sleeping", "2"),
    hangs("thread_join", "1"),
    # Collectives that do not fit together.
    hangs("mismatch_kind", "1", "collective-mismatch", ranks="4"),
    hangs("mismatch_size", "3", "collective-mismatch", ranks="4"),
    hangs("mismatch_order", "2", "collective-mismatch", ranks="4"),
    hangs("missing_from_collective", "3", ranks="4"),
    hangs("missing_from_sub_group", "3", "missing-from-collective", ranks="5"),
    hangs("checkpoint_on_one_rank", "0", ranks="4"),
    # Ranks that are not there, or do not find the others.
    hangs("rank_never_started", "3", ranks="3/4"),
    hangs("rank_died", "1", ranks="3"),
    hangs("master_unreachable", "2"),
    # Nothing is wrong.
    runs("healthy_training", ranks="2", torchrun=True, busy=True),
    runs("slow_but_alive", ranks="2"),
    runs("long_computation", busy=True),
    runs("long_loop", busy=True),
    runs("just_starting", at_once=True),
    runs("computing_alone", ranks="1", busy=True),
    runs("idle_http_server", "idle", ranks="1"),
    runs("idle_asyncio_server", "idle", ranks="1"),
]

# What differs where no agent is asked. Which lines the ranks stand at can be seen; not the sizes
# of tensors, nor which group a collective is in, nor what a rank has called before.
LEFT_OUT_OR_MISMATCH = frozenset({"collective-mismatch", "missing-from-collective"})
FROM_OUTSIDE: dict[str, dict[str, Any]] = {
    "mismatch_size": {"causes": LEFT_OUT_OR_MISMATCH},
    "missing_from_collective": {"causes": LEFT_OUT_OR_MISMATCH},
    # Three are at one line and two at another, of which one belongs there.
    "missing_from_sub_group": {"culprit": "", "causes": frozenset()},
}
# And where there is none: breakpoint() is a pdb that reads from stdin.
WITHOUT_AGENT = {**FROM_OUTSIDE, "at_breakpoint": {"causes": frozenset({"forgotten-debugger"})}}

# What `make test` leaves to `make test-all`: programs of which another one has the same cause;
FURTHER = {
    "data_loading_in_worker", "lock_cycle_alone", "spawn_join", "waits_for_http",
    "mismatch_size", "mismatch_order", "missing_from_sub_group", "idle_asyncio_server",
}  # fmt: skip
# to look at jobs with agents from outside, but for a third of them;
LOOKED_AT_FROM_OUTSIDE = {
    "data_loading", "gil_held", "lock_cycle", "waits_for_child", "file_system",
    "at_breakpoint", "waits_for_network", "waits_for_queue", "mismatch_kind",
    "missing_from_collective", "rank_died", "slow_but_alive", "idle_http_server",
}  # fmt: skip
# and jobs without agents, each of whose ranks has to load torch, but for one that hangs and one that
# does not.
STARTED_WITHOUT = {"stopped_by_signal", "healthy_training"}
assert {row.start.program for row in TABLE} >= FURTHER | LOOKED_AT_FROM_OUTSIDE | STARTED_WITHOUT


def without_agent(expected: Expected) -> Expected:
    start = replace(expected.start, agent=False)
    return replace(expected, start=start, **WITHOUT_AGENT.get(start.program, {}))


def looks(case: Expected) -> Iterator[Any]:
    """One with the agents, one that asks none of them, and one at a job that has none."""
    program = case.start.program
    further = [extra] if program in FURTHER else []
    yield pytest.param(case, (), marks=further, id=f"{program}-agent")
    if not case.start.at_once:
        outside = replace(case, **FROM_OUTSIDE.get(program, {}))
        marks = [] if program in LOOKED_AT_FROM_OUTSIDE else [extra]
        yield pytest.param(outside, ("--outside",), marks=marks, id=f"{program}-outside")
    marks = [] if program in STARTED_WITHOUT else [extra]
    yield pytest.param(without_agent(case), (), marks=marks, id=f"{program}-bare")


@pytest.fixture(scope="module")
def hanging_jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HangingJobs]:
    jobs = HangingJobs(tmp_path_factory.mktemp("hangs"))
    yield jobs
    jobs.end_all()


@pytest.fixture
def hanging(
    request: pytest.FixtureRequest, hanging_jobs: HangingJobs, expected: Expected
) -> Iterator[HangingJob]:
    coming = [case.start for case in parameters_after(request.node, "expected")]
    job = hanging_jobs.take(expected.start, coming)
    try:
        job.wait()
        yield job
    finally:
        if coming[:1] != [expected.start]:  # the next test takes another look at this job
            hanging_jobs.end(expected.start)


@pytest.mark.parametrize(("expected", "options"), [look for case in TABLE for look in looks(case)])
def test_verdict(hanging: HangingJob, expected: Expected, options: tuple[str, ...]) -> None:
    """Whether the job is stuck, by whom, and for which cause; the same where no agent is asked."""
    # Who gets no processor for a while may seem to have come on: watched until it is settled.
    patience = ("--longest", "40") if expected.stuck else ()
    check(hanging.why(*options, *patience), expected)


EXIT = Expected(Start("exit_blocked"), "2", frozenset({"exit-blocked"}))


@pytest.mark.parametrize("expected", [EXIT], ids=lambda case: str(case.start))
def test_thread_that_is_joined_at_exit(hanging: HangingJob, expected: Expected) -> None:
    """Which one that is, and what it waits for."""
    verdict = hanging.why("--longest", "40")
    check(verdict, expected)
    thread, queue = verdict["chain"]
    assert thread["whom"].startswith("thread Thread-") and "upload" in thread["whom"], verdict
    assert queue["what"].startswith("waits for the queue"), verdict


ORDER = frozenset({"missing-from-collective"})
ORDERS = [
    Expected(Start("left_the_order", "4"), "3", ORDER),
    # gloo's recorder has no messages: nothing tells which end has left the schedule.
    Expected(Start("microbatch_too_few"), "1-2", ORDER),
    # No earlier barrier tells how many all_reduces come before it; what the ranks did in each step does.
    Expected(Start("barrier_of_all", "4"), "2", ORDER),
    Expected(Start("left_the_order", "4", arguments=("late",)), "", frozenset(), stuck=False),
    Expected(Start("barrier_of_all", "4", arguments=("late",)), "", frozenset(), stuck=False),
    Expected(Start("microbatch_too_few", arguments=("late",)), "", frozenset(), stuck=False),
]


@pytest.mark.parametrize("expected", ORDERS, ids=lambda case: str(case.start))
def test_common_order(hanging: HangingJob, expected: Expected) -> None:
    """Of ranks that wait for each other, the one that has left the order; a late one has not. Where
    no agent is asked, their histories tell it."""
    patience = ("--longest", "40") if expected.stuck else ()
    check(hanging.why(*patience), expected)
    if expected.start.program == "left_the_order":
        verdict = hanging.why("--outside", *patience)
        by_histories = {"collective-mismatch"} if expected.stuck else ()
        check(verdict, replace(expected, causes=frozenset(by_histories)))


BARE_ORDER = Expected(Start("left_the_order", "4", agent=False), "0-3", ORDER)


@pytest.mark.parametrize("expected", [BARE_ORDER], ids=["bare"])
def test_unknown_order(hanging: HangingJob, expected: Expected) -> None:
    """Where there is no agent, nothing tells what ranks have called before: none is named alone."""
    verdict = hanging.why("--longest", "40")
    check(verdict, expected)
    said = verdict["findings"][0]["says"]
    assert "rank 1 in all_reduce" in said, verdict
    assert "ranks 0,2-3 in barrier" in said, verdict
    assert "rankdbg run" in verdict["next"], verdict


LATE_KEY = frozenset({"store-key-set-too-late"})
SERVED_KEYS = Start("store_key_set_too_late", "2", arguments=("served",))
# The one that waits for the key and the one that is to set it: either may have the wrong order.
TOO_LATE = Expected(Start("store_key_set_too_late", "2"), "0-1", LATE_KEY)
# Where two of three wait for the key, the third is the odd one out.
TOO_LATE_FOR_TWO = Expected(Start("store_key_set_too_late", "3", arguments=("all",)), "0", LATE_KEY)


@pytest.mark.parametrize("expected", [TOO_LATE, TOO_LATE_FOR_TWO], ids=lambda case: str(case.start))
def test_key_of_a_store(hanging: HangingJob, expected: Expected) -> None:
    """Which one is waited for, who is to set it, and what that one waits for."""
    verdict = hanging.why("--longest", "40")
    check(verdict, expected)
    key, back = verdict["chain"]
    assert key["what"] == "waits for the key 'tokenizer is ready' of the store, set by", key
    assert (key["who"], key["whom"]) == ("rank 1", "rank 0"), key
    assert (back["what"], back["whom"]) == ("waits in all_reduce for", "rank 1"), back


@pytest.mark.parametrize(
    "expected", [Expected(SERVED_KEYS, "", frozenset(), False)], ids=["served"]
)
def test_keys_that_are_set(hanging: HangingJob, expected: Expected) -> None:
    """The twin: nobody is accused."""
    check(hanging.why(), expected)


HELD = frozenset({"held-in-collective"})
HELD_LOCK = Expected(Start("lock_held_in_collective"), "0-1", HELD)
POLLED_LOCK = Expected(Start("lock_held_in_collective", arguments=("polled",)), "0-1", HELD)


@pytest.mark.parametrize("expected", [HELD_LOCK, POLLED_LOCK], ids=lambda case: str(case.start))
def test_lock_of_a_rank_in_a_collective(hanging: HangingJob, expected: Expected) -> None:
    """Which one has the lock, and for whom that one waits; with its agent and without."""
    for options in ((), ("--outside",)):
        verdict = hanging.why(*options, "--longest", "40")
        check(verdict, expected)
        lock, back = verdict["chain"]
        assert (lock["who"], lock["whom"]) == ("rank 1", "rank 0"), lock
        assert "/index." in lock["what"], lock
        assert (back["what"], back["whom"]) == ("waits in all_reduce for", "rank 1"), back


PASSED_LOCK = Start("lock_held_in_collective", arguments=("passed",))


@pytest.mark.parametrize(
    "expected", [Expected(PASSED_LOCK, "", frozenset(), False)], ids=["passed"]
)
def test_lock_that_is_passed_on(hanging: HangingJob, expected: Expected) -> None:
    """The twin: nobody is accused."""
    check(hanging.why(), expected)


SLOW_ANSWERS = Start("answered_after_seconds", "2", agent=False)


@pytest.mark.parametrize("expected", [Expected(SLOW_ANSWERS, "", frozenset(), False)], ids=["bare"])
def test_answers_after_seconds(hanging: HangingJob, expected: Expected) -> None:
    """Where no recorder tells how long ranks usually wait: who gets an answer every four seconds is
    not accused of not getting one."""
    check(hanging.why(), expected)


OTHER_ROOT = Expected(Start("other_root", "4"), "2", frozenset({"collective-mismatch"}))


@pytest.mark.parametrize("expected", [OTHER_ROOT], ids=lambda case: str(case.start))
def test_another_root(hanging: HangingJob, expected: Expected) -> None:
    """Others wait in the same broadcast; the one that has called it with another root is named."""
    verdict = hanging.why("--longest", "40")
    check(verdict, expected)
    said = verdict["findings"][0]["says"]
    assert "from rank 2" in said and "from rank 0" in said, verdict


def check(verdict: Any, expected: Expected) -> None:
    said = json.dumps(verdict, indent=1)
    assert verdict["stuck"] is expected.stuck, said
    assert verdict["culprit"] == expected.culprit, said
    assert verdict["cause"] in expected.causes or not expected.causes, said
