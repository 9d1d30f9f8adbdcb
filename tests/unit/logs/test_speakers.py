"""Whose lines are wanted, where two roles have the same number."""

from __future__ import annotations

import pytest

from rankdbg.logs.entries import LogQuery, RankProcess
from rankdbg.logs.places import LogFile
from rankdbg.logs.speakers import Speaker, Speakers

KNOWN = (
    RankProcess("a", 11, 0, "Trainer"),
    RankProcess("a", 12, 1, "Trainer"),
    RankProcess("b", 21, 1, "Rollout"),
    RankProcess("b", 22, 2, "Rollout"),
)


def speakers(pids: set[int], known: tuple[RankProcess, ...] = KNOWN) -> Speakers:
    numbers = frozenset(k.rank for k in KNOWN if k.pid in pids and k.rank is not None)
    wanted = LogQuery(ranks=numbers, pids=frozenset(pids), known=known)
    return Speakers(LogFile("node", "all.log", "log"), wanted)


@pytest.mark.parametrize(
    ("who", "is_wanted"),
    [
        (Speaker(1, 12, "Trainer"), True),
        (Speaker(1, 21, "Rollout"), False),
        (Speaker(1, None, "Trainer"), True),
        (Speaker(1, None, "Rollout"), False),
        (Speaker(1, 999, "Rollout"), False),  # one that has ended
        (Speaker(1, None, ""), False),  # either
        (Speaker(0, None, ""), False),
    ],
)
def test_one_role(who: Speaker, is_wanted: bool) -> None:
    """Of role=Trainer,1 never a line of Rollout 1."""
    assert speakers({12}).is_wanted(who) is is_wanted


def test_both_roles() -> None:
    """Then a line that says only its number is one of theirs."""
    assert speakers({12, 21}).is_wanted(Speaker(1, None, ""))


def test_number_of_one_role() -> None:
    """Says enough."""
    assert speakers({22}).is_wanted(Speaker(2, None, ""))


def test_nothing_is_known_of_the_ranks() -> None:
    """The number decides."""
    assert speakers({12}, ()).is_wanted(Speaker(1, None, ""))
