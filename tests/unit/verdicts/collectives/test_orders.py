"""orders.py: of ranks that wait for each other in two collectives, those that left the order."""

from __future__ import annotations

import pytest

from collective_findings import culprits, sentence
from rankdbg.verdicts.collectives.culprits import CollectiveFindings, judge
from rankdbg.verdicts.collectives.traces import Operation, Trace

WORLD, DP = "0", "dp"


def trace(rank: int, world: int, groups: int, rounds: list[str]) -> Trace:
    """Rounds like "rrb": collectives of its data-parallel group (r) and barriers of all (b). The
    last one is under way."""
    counts = {WORLD: 0, DP: 0}
    operations = []
    issued = "".join(rounds)
    for record, letter in enumerate(issued):
        group = DP if letter == "r" else WORLD
        counts[group] += 1
        name = "all_reduce" if letter == "r" else "barrier"
        done = record < len(issued) - 1
        operations.append(
            Operation(group, name, counts[group], finished=done, created=record + 1, record=record)
        )
    members = {WORLD: tuple(range(world)), DP: tuple(range(rank % groups, world, groups))}
    return Trace(rank, tuple(operations), members, {DP: "mesh_dp"})


def findings(groups: int, *ranks: list[str]) -> CollectiveFindings:
    return judge([trace(number, len(ranks), groups, r) for number, r in enumerate(ranks)])


def test_one_that_did_one_less() -> None:
    """Ranks 1, 3 and 7 wait for 5 in their group, 5 waits for them in the barrier, as do all of
    the other group. Most ranks wait for 1, 3 and 7; it is 5 that has skipped one."""
    others, waits, skipped = ["rrb", "rrb"], ["rrb", "rr"], ["rrb", "rb"]
    found = findings(2, others, waits, others, waits, others, skipped, others, waits)
    assert culprits(found) == [("circle", (5,))]
    assert sentence(found).endswith(
        "Before barrier #2 of group 0, rank 5 has entered 3 collectives of group dp (dp), "
        "the other ranks 4."
    )


def test_several_that_did_one_more() -> None:
    """The majority of a group may have left the order as well."""
    others, more = ["rb", "rb"], ["rb", "rr"]
    found = findings(2, others, more, others, more, others, others, others, more)
    assert culprits(found) == [("circle", (1, 3, 7))]
    assert "entered 3 collectives of group dp (dp), the other ranks 2." in sentence(found)


def test_by_earlier_rounds() -> None:
    """All ranks are in the circle: the rounds before tell what is usual."""
    usual, skipped = ["rrb", "rrb", "rrb", "rr"], ["rrb", "rrb", "rrb", "rb"]
    found = findings(1, usual, skipped, usual)
    assert culprits(found) == [("circle", (1,))]
    assert sentence(found).endswith("and not 8 as in earlier rounds.")


@pytest.mark.parametrize("earlier", [[], ["rb"], ["rb", "rrb", "rb"]])
def test_history_that_tells_nothing(earlier: list[str]) -> None:
    """Too short, or without a rule: both sides are named, and that nothing decides."""
    found = findings(1, [*earlier, "rr"], [*earlier, "rb"])
    assert culprits(found)[0][0] == "circle"
    assert found.culprit_ranks == (0, 1)
    assert "do not show which side left" in sentence(found)


def test_order_that_all_keep() -> None:
    """The twin: all are in the same barrier, after the same collectives. Nobody has left."""
    same = ["rrb", "rrb"]
    assert culprits(findings(2, same, same, same, same)) == []


def test_one_that_is_late() -> None:
    """The twin of a circle: it is under way to where the others are."""
    others, late = ["rrb", "rr"], ["rrb", "r"]
    found = findings(1, others, late, others)
    assert all(culprit.reason != "circle" for culprit in found.culprits)
