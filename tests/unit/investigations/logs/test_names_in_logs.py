"""Who has written a message: a process, named as shortly as can be."""

from __future__ import annotations

from rankdbg.investigations.logs.merged_messages import LogWriter, WriterNames
from rankdbg.logs.entries import Entry
from rankdbg.types import ProcessKey, Rank


def ranks(*of: tuple[int, str]) -> list[Rank]:
    """With the pids 10, 11, ..."""
    return [
        Rank(ProcessKey("n", pid, 1), "job", number, role=role)
        for pid, (number, role) in enumerate(of, 10)
    ]


def names(found: list[Rank]) -> list[str]:
    """In lines, which are the same as in the roster."""
    known = WriterNames(found)
    by_roster = [known.of_rank(rank) for rank in found]
    lines = [Entry(0.0, None, 0, rank.number, rank.pid, rank.role, "") for rank in found]
    assert [known.of(line) for line in lines] == by_roster
    assert len({*by_roster}) == len(found)  # each process counts
    return [who.name for who in by_roster]


def test_numbers_are_enough() -> None:
    assert names(ranks((0, ""), (1, "Trainer"))) == ["", ""]


def test_roles_tell_them_apart() -> None:
    assert names(ranks((0, "Trainer"), (0, "Rollout"))) == ["Trainer", "Rollout"]


def test_pids_tell_them_apart() -> None:
    """Two launchers in one job have a rank 0 of the same role each."""
    found = ranks((0, "step"), (0, "step"), (1, "step"))
    assert names(found) == ["step pid 10:", "step pid 11:", "step"]
    assert names(ranks((0, ""), (0, ""))) == ["pid 10:", "pid 11:"]


def test_line_with_a_number_alone() -> None:
    """It cannot be told whose it is."""
    line = Entry(0.0, None, 0, 0, None, "", "")
    assert WriterNames(ranks((0, "step"), (0, "step"))).of(line) == LogWriter(0, "")
