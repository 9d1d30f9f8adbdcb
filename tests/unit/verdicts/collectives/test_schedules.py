"""schedules.py: who has sent too few messages, or expects too many, before a collective."""

from __future__ import annotations

import pytest

from collective_findings import culprits, sentence
from rankdbg.verdicts.collectives.culprits import CollectiveFindings, judge
from rankdbg.verdicts.collectives.traces import Operation, Trace


def trace(rank: int, rounds: list[str], recorded: bool = True) -> Trace:
    """Rounds like "ssb": messages to the next rank (s) or from the one before (r), barriers (b). The
    last is under way, if no dot follows; without a record of messages, only that one is known."""
    numbers = {"b": 0, "s": 0, "r": 0}
    names = {"b": "barrier", "s": "send", "r": "recv"}
    ends = {"b": None, "s": (rank, rank + 1), "r": (rank - 1, rank)}
    issued = "".join(rounds)
    operations = []
    for record, letter in enumerate(issued.rstrip(".")):
        numbers[letter] += 1
        last = record == len(issued) - 1
        if recorded or letter == "b" or last:
            operations.append(
                Operation(
                    "0",
                    names[letter],
                    numbers[letter],
                    point_to_point=letter != "b",
                    ends=ends[letter],
                    finished=not last,
                    created=record + 1,
                    record=record,
                )
            )
    return Trace(rank, tuple(operations), {"0": (0, 1, 2)})


def findings(*ranks: list[str], recorded: bool = True) -> CollectiveFindings:
    return judge([trace(number, rounds, recorded) for number, rounds in enumerate(ranks)])


FIRST, MIDDLE, LAST = "ssssb", "rsrsrsrsb", "rrrrb"


def test_stage_with_one_message_too_few() -> None:
    """Most ranks wait for the last stage, which waits for the one that has left a message out."""
    found = findings([FIRST] * 4, [*[MIDDLE] * 3, "rsrsrsrb"], [*[LAST] * 3, "rrrr"])
    assert culprits(found) == [("circle", (1,))]
    assert sentence(found).endswith(
        "Before barrier #4 of group 0, rank 1 has sent 3 messages to rank 2, and not 4 as in "
        "earlier rounds."
    )


def test_stage_that_expects_one_message_too_many() -> None:
    found = findings([FIRST] * 4, [MIDDLE] * 4, [*[LAST] * 3, "rrrrr"])
    assert culprits(found) == [("circle", (2,))]
    assert "has waited for 5 messages from rank 1, and not 4" in sentence(found)


@pytest.mark.parametrize("recorded", [True, False])
def test_without_earlier_rounds_both_ends_are_named(recorded: bool) -> None:
    """As on gloo, which records no messages."""
    rounds = ([FIRST], ["rsrsrsrb"], ["rrrr"])
    found = findings(*(r if recorded else [r[0]] * 1 for r in rounds), recorded=recorded)
    assert culprits(found) == [("circle", (1, 2))]
    assert found.culprits[0].is_undecided
    assert "The flight recorders do not show which side left the common order" in sentence(found)


def test_stage_that_is_late() -> None:
    """The twin: it computes what it is about to send."""
    found = findings([FIRST] * 4, [*[MIDDLE] * 3, "rsrsrsr."], [*[LAST] * 3, "rrrr"])
    assert all(culprit.reason != "circle" for culprit in found.culprits), found.culprits
