"""A job of a driver, Rollout 0-3 and Trainer 0-1: every report names the right process."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rankdbg.frontends.reports.collectives import print_collectives
from rankdbg.frontends.reports.verdicts import print_verdict
from rankdbg.frontends.terminal import Terminal
from rankdbg.investigations.answers import Answers
from rankdbg.investigations.collectives.collective_waits import CollectiveWaits
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.stacks.merged_stacks import MergedStacks
from rankdbg.investigations.stops.casts import CastOutputs
from rankdbg.selection import parse, pick
from rankdbg.types import Answer, Frame, ProcessKey, Rank, Sampled, Silence, Stack
from rankdbg.verdicts.collectives.traces import Operation, Trace
from rankdbg.verdicts.collectives.worlds import RecordedCollectives, World, judge_worlds
from rankdbg.verdicts.hangs.evidence import Evidence, Seen, Vitals
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from rankdbg.verdicts.hangs.judgement import Verdict, judge
from rankdbg.wire.answers import Described, StopReport

RULES = load_hang_rules()
TORCH = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
IN_ALL_REDUCE = (Frame("all_reduce", TORCH, 3252), Frame("step", "/job/train.py", 88))
IN_READ = (Frame("read_shard", "/job/data.py", 31), Frame("<module>", "/job/train.py", 9))
WAITING = Vitals(at=0.0, state="S", call="futex", age=100.0, switches=5)


def make(pid: int, number: int | None, role: str, **more: Any) -> Rank:
    return Rank(ProcessKey("node-1", pid, pid), "job", number, role=role, agent=True, **more)


def job(driver: int | None) -> list[Rank]:
    """The driver has no number, or 0."""
    return [
        make(1, driver, "driver"),
        *(make(10 + n, n, "Rollout", world=4) for n in range(4)),
        *(make(20 + n, n, "Trainer", world=2) for n in range(2)),
    ]


DRIVERS = pytest.mark.parametrize("driver", [None, 0])


def seen(rank: Rank, all_ranks: Sequence[Rank], frames: tuple[Frame, ...], **vitals: Any) -> Seen:
    before = replace(WAITING, **vitals)
    sample = (Stack("MainThread", True, frames),)
    return Seen(rank, [sample] * 9, before, replace(before, at=30.0), all_ranks=all_ranks)


def worlds(all_ranks: Sequence[Rank], missing: int) -> list[World]:
    """Rollouts and trainers have process groups of their own; one process has not come to the last
    collective of its world, the other world goes on."""
    recorded = []
    for rank in all_ranks:
        size = {"Rollout": 4, "Trainer": 2}.get(rank.role, 0)
        role_waits = any(r.pid == missing and r.role == rank.role for r in all_ranks)
        last = 1 if rank.pid == missing or not role_waits else 2
        operations = tuple(
            Operation("0", "all_reduce", n, finished=n == 1, created=n, record=n)
            for n in range(1, last + 1)
        )
        trace = Trace(rank.number or 0, operations, {"0": tuple(range(size))})
        if size:
            recorded.append(RecordedCollectives(rank, trace, size=size))
    return judge_worlds(recorded)


def verdict(all_ranks: Sequence[Rank], evidence: Evidence) -> JobVerdict:
    return JobVerdict(judge(evidence, RULES), evidence, all_ranks)


def text_of(found: JobVerdict) -> str:
    out = io.StringIO()
    print_verdict(Terminal(out), found)
    return out.getvalue()


def check(found: JobVerdict, name: str, pids: list[int]) -> None:
    """The verdict names these processes, and its text picks them."""
    document = found.as_json()
    assert document["culprit"] == name
    assert [process["pid"] for process in document["processes"]] == pids
    assert [rank.pid for rank in pick(parse(name), found.all_ranks)] == pids
    assert f"culprit     {name}" in text_of(found)


@DRIVERS
@pytest.mark.parametrize(("pid", "name"), [(12, "Rollout 2"), (20, "Trainer 0"), (21, "Trainer 1")])
def test_missing_from_a_collective(driver: int | None, pid: int, name: str) -> None:
    """Recorders miss one process of one world: no other process with its number is named, and those
    that wait are of its world."""
    all_ranks = job(driver)
    ranks = [
        seen(rank, all_ranks, IN_READ if rank.pid in (pid, 1) else IN_ALL_REDUCE)
        for rank in all_ranks
    ]
    found = verdict(all_ranks, Evidence(ranks, worlds(all_ranks, pid)))
    check(found, name, [pid])
    role = name.partition(" ")[0]
    waiting = {rank.role for rank in pick(parse(found.as_json()["waiting"]), all_ranks)}
    assert waiting == {role}
    proofs = " ".join(found.as_json()["evidence"])
    assert f"{name} has not entered" in proofs
    assert "rank 0" not in text_of(found)


@DRIVERS
def test_held_without_recorders(driver: int | None) -> None:
    """A stopped process of one role is accused, and the command to resume it picks it alone."""
    all_ranks = job(driver)
    ranks = [
        seen(r, all_ranks, IN_ALL_REDUCE, **({"state": "T"} if r.pid == 20 else {}))
        for r in all_ranks
    ]
    found = verdict(all_ranks, Evidence(ranks))
    check(found, "Trainer 0", [20])


@DRIVERS
def test_unknown_call(driver: int | None) -> None:
    """The command that looks closer can be pasted into a shell."""
    all_ranks = job(driver)
    ranks = [
        seen(r, all_ranks, IN_READ if r.pid == 21 else IN_ALL_REDUCE, call="") for r in all_ranks
    ]
    found = verdict(all_ranks, Evidence(ranks))
    check(found, "Trainer 1", [21])
    assert "rankdbg stacks 'Trainer 1'" in found.as_json()["next"]


@DRIVERS
def test_dead_process(driver: int | None) -> None:
    """A process that is gone is named with its role, also if others have its number."""
    all_ranks = job(driver)
    gone = [replace(all_ranks[5], state="gone")]
    ranks = [seen(rank, all_ranks, IN_ALL_REDUCE) for rank in all_ranks if rank.pid != 20]
    found = verdict(all_ranks, Evidence(ranks, gone=gone))
    check(found, "Trainer 0", [20])
    assert found.as_json()["cause"] == "rank-died"
    assert found.first is not None and found.first.says == "the process is gone"


OOM = "Ray's memory monitor killed it: the node was low on memory"


@DRIVERS
def test_dead_process_of_which_the_launcher_knows_the_end(driver: int | None) -> None:
    """How it has ended is part of the cause; and of the note where no rank waits for it."""
    all_ranks = job(driver)
    gone = [replace(all_ranks[5], state="gone", detail=OOM)]
    living = [rank for rank in all_ranks if rank.pid != 20]
    evidence = Evidence([seen(rank, all_ranks, IN_ALL_REDUCE) for rank in living], gone=gone)
    first = verdict(all_ranks, evidence).first
    assert first is not None and first.says == f"the process is gone ({OOM})"
    moving = JobVerdict(Verdict("moving"), evidence, all_ranks)
    note = f"Trainer 0 has ended ({OOM}), and no rank waits for it."
    assert moving.absent_text().startswith(note)


@DRIVERS
def test_never_started(driver: int | None) -> None:
    """A number that a role lacks is missed, although another role has it."""
    all_ranks = [rank for rank in job(driver) if rank.pid != 21]
    ranks = [seen(rank, all_ranks, IN_ALL_REDUCE) for rank in all_ranks]
    document = verdict(all_ranks, Evidence(ranks)).as_json()
    assert document["culprit"] == "Trainer 1"
    assert [(p["rank"], p["pid"]) for p in document["processes"]] == [(1, None)]


@DRIVERS
def test_moving_job_accuses_none(driver: int | None) -> None:
    """The innocent twin: the same job, in which all ranks make progress."""
    all_ranks = job(driver)
    ranks = [replace(seen(r, all_ranks, IN_ALL_REDUCE), counted_on=True) for r in all_ranks]
    document = verdict(all_ranks, Evidence(ranks, worlds(all_ranks, 20))).as_json()
    assert (document["state"], document["culprit"], document["processes"]) == ("moving", "", [])


@DRIVERS
def test_one_world_hangs_while_the_other_moves(driver: int | None) -> None:
    """Trainers that go on do not hide that the rollouts hang."""
    all_ranks = job(driver)
    ranks = [
        replace(
            seen(rank, all_ranks, IN_READ if rank.pid in (1, 13) else IN_ALL_REDUCE),
            counted_on=rank.role == "Trainer",
        )
        for rank in all_ranks
    ]
    check(verdict(all_ranks, Evidence(ranks, worlds(all_ranks, 13))), "Rollout 3", [13])


@DRIVERS
def test_collectives(driver: int | None) -> None:
    """`collectives` never refuses equal numbers: it names the processes of each world."""
    all_ranks = job(driver)
    silence = Silence(all_ranks[0], "it holds the GIL")
    waits = CollectiveWaits(worlds(all_ranks, 20), [silence], all_ranks)
    document = waits.as_json()
    assert document["culprit"] == "Trainer 0"
    assert [process["pid"] for process in document["processes"]] == [20]
    assert document["waiting"] == "Trainer 1"
    assert {group["members"] for group in document["groups"]} == {"Rollout 0-3", "Trainer 0-1"}
    out = io.StringIO()
    print_collectives(Terminal(out), waits, full=True)
    text = out.getvalue()
    assert text.startswith("Trainer 0 holds the others up.")
    assert "group 0, Rollout 0-3" in text and "rankdbg stacks 'Trainer 0'" in text
    assert "no response: driver" in text
    assert {(row["role"], row["pid"]) for row in waits.records()} >= {("Trainer", 20)}


@DRIVERS
def test_answers(driver: int | None) -> None:
    """Groups of equal values, outputs and stacks are written as roles and numbers."""
    all_ranks = job(driver)
    named = "driver" if driver is None else "driver 0"
    values = [Answer(rank, Described("text", rank.role)) for rank in all_ranks]
    groups = [group["ranks"] for group in Answers(values, all_ranks, "x").as_json()["groups"]]
    assert groups == ["Rollout 0-3", "Trainer 0-1", named]
    outputs = [Answer(r, StopReport("stopped", output=r.role[:1])) for r in all_ranks[1:]]
    cast = CastOutputs([*outputs, Answer(all_ranks[0], StopReport("none"))], all_ranks).as_json()
    assert [group["ranks"] for group in cast["groups"]] == ["Rollout 0-3", "Trainer 0-1"]
    assert cast["not_stopped"] == named
    stack = Stack("MainThread", True, IN_READ)
    sampled = [Sampled(rank, ((stack,),), rank.role) for rank in all_ranks]
    stacks = MergedStacks(sampled, [], all_ranks).as_json()
    assert [group["ranks"] for group in stacks["groups"]] == [f"{named}, Rollout 0-3, Trainer 0-1"]
    assert len(stacks["sources"]) == 7
    assert stacks["sources"]["Trainer 1"] == "Trainer"


def test_rank_that_is_not_there_in_an_idle_job() -> None:
    """Is said to be absent, in each role by itself, and not accused: no rank waits for it."""
    idle = (Frame("<module>", "/job/serve.py", 5),)
    ranks = [rank for rank in job(None) if rank.pid not in (1, 12)]
    evidence = Evidence([seen(rank, ranks, idle, call="clock_nanosleep") for rank in ranks])
    found = JobVerdict(judge(evidence, RULES), evidence, ranks)
    assert found.verdict.state == "idle"
    assert found.as_json()["absent"] == "Rollout 2"
    assert found.absent_text().startswith("Rollout 2 has ended, or has not started yet")
    trainers = [rank for rank in job(None) if rank.role == "Trainer"]
    evidence = Evidence([seen(rank, trainers, idle, call="clock_nanosleep") for rank in trainers])
    assert JobVerdict(judge(evidence, RULES), evidence, trainers).absent_text() == ""


@pytest.mark.parametrize(
    ("waited", "words"),
    [
        (120.0, "Trainer 1 has waited 2 min for Trainer 0, which may be at work"),
        (None, "Trainer 1 waits for Trainer 0, which may be at work"),
        (0.5, "ranks wait, but no longer than usual"),
    ],
)
def test_whom_ranks_of_a_job_wait_for_that_may_go_on(waited: float | None, words: str) -> None:
    trainers = [rank for rank in job(None) if rank.role == "Trainer"]
    ranks = [
        replace(seen(rank, trainers, frames), after=replace(WAITING, at=0.1))
        for rank, frames in zip(trainers, (IN_READ, IN_ALL_REDUCE), strict=True)
    ]
    judged = judge(Evidence(ranks), RULES)
    assert (judged.state, judged.findings) == ("moving", ())
    found = JobVerdict(replace(judged, waited=waited), Evidence(ranks), job(None))
    assert found.headline() == f"The job may be making progress: {words}."
    assert found.as_json()["suspects"] == "Trainer 0"
