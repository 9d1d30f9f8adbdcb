"""Worlds of one job are told apart, and torch's numbers are mapped back to processes."""

from __future__ import annotations

from typing import Any

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.collectives.traces import Operation, Trace
from rankdbg.verdicts.collectives.worlds import RecordedCollectives, judge_worlds, separate


def rank(pid: int, number: int | None, role: str = "", **more: Any) -> Rank:
    return Rank(ProcessKey("node-1", pid, pid), "job", number, role=role, **more)


def trace(number: int, last: int, size: int, waits: bool = False) -> Trace:
    """In `last` collectives of its world, of which it has not left the last one if it waits."""
    operations = tuple(
        Operation("0", "all_reduce", n, finished=not waits or n < last, created=n, record=n)
        for n in range(1, last + 1)
    )
    return Trace(number, operations, members={"0": tuple(range(size))})


def told(pid: int, number: int, role: str, store: str = "", **more: Any) -> RecordedCollectives:
    last, waits = more.pop("last", 2), more.pop("waits", True)
    label = more.pop("label", number)
    size = more.pop("size", 2)
    return RecordedCollectives(
        rank(pid, label, role), trace(number, last, size, waits), store, size
    )


def pids(worlds: list[dict[int, RecordedCollectives]]) -> list[dict[int, int]]:
    return [{number: each.rank.pid for number, each in world.items()} for world in worlds]


def test_roles_are_worlds_of_their_own() -> None:
    """Trainers and rollouts with process groups of their own have equal numbers."""
    found = separate([told(10 + n, n, "Rollout") for n in range(2)] + [told(20, 0, "Trainer")])
    assert sorted(map(str, pids(found))) == sorted(map(str, [{0: 10, 1: 11}, {0: 20}]))


def test_stores_tell_worlds_apart() -> None:
    """Two torchruns in one job meet at two stores; one store has several names of its host."""
    found = separate(
        [
            *(told(10 + n, n, "", "head:29500") for n in range(2)),
            told(20, 0, "", "head:29501"),
            told(21, 1, "", "localhost:29501"),
        ]
    )
    assert sorted(map(str, pids(found))) == sorted(map(str, [{0: 10, 1: 11}, {0: 20, 1: 21}]))


def test_equal_numbers_without_a_store() -> None:
    """Where no store is known, processes that were started together are together."""
    found = separate([told(pid, pid % 10, "") for pid in (10, 11, 20, 21)])
    assert pids(found) == [{0: 10, 1: 11}, {0: 20, 1: 21}]


def test_driver_is_in_no_world_of_its_actors() -> None:
    """A driver that has the number of an actor and no torch does not take the actor's place."""
    driver = RecordedCollectives(rank(1, 0, "driver"), Trace(0, remark="it has not loaded torch"))
    (world, other) = separate([driver, *(told(20 + n, n, "Trainer") for n in range(2))])
    assert pids([world, other]) == [{0: 20, 1: 21}, {0: 1}]


def test_rank_without_response_is_in_the_world_that_lacks_it() -> None:
    """By its number; where torch counts otherwise than labels, by the one number that is free."""
    silent = RecordedCollectives(rank(21, 1, "Trainer"), Trace(1, absent="no response"))
    assert pids(separate([told(20, 0, "Trainer"), silent])) == [{0: 20, 1: 21}]
    crossed = told(20, 1, "Trainer", label=0)
    assert pids(separate([crossed, silent])) == [{1: 20, 0: 21}]


def test_findings_are_of_processes() -> None:
    """In each world the one that is missing is found, as a process; a healthy world accuses none."""
    rollouts = [told(10 + n, n, "Rollout", size=4, last=3 - (n == 2)) for n in range(4)]
    rollouts[2] = told(12, 2, "Rollout", size=4, last=2, waits=False)
    trainers = [told(20 + n, n, "Trainer", waits=False) for n in range(2)]
    worlds = judge_worlds([*trainers, *rollouts])
    accused = [[r.pid for r in world.of(world.findings.culprit_ranks)] for world in worlds]
    assert accused == [[12], []]


def test_number_that_no_process_has() -> None:
    """A member of a group that the roster does not know is a rank without a process."""
    (world,) = judge_worlds([told(10, 0, "Rollout")])
    (missing,) = world.of(world.findings.culprit_ranks)
    assert (missing.number, missing.role, missing.host, missing.pid) == (1, "Rollout", "", 0)
