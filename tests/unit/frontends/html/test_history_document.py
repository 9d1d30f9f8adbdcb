"""history_document.py and replica_document.py: where ranks parted, and which tensors differ."""

from __future__ import annotations

from rankdbg.frontends.html.document import Colouring
from rankdbg.frontends.html.history_document import document_of_history
from rankdbg.frontends.html.page_origin import PageOrigin
from rankdbg.frontends.html.replica_document import document_of_replicas
from rankdbg.investigations.histories.rank_histories import JobHistory, ShownDeparture
from rankdbg.investigations.replicas.results import Replicas
from rankdbg.types import ProcessKey, Rank, Silence
from rankdbg.verdicts.histories.departures import Departure, EventDifference, RankHistory
from rankdbg.verdicts.replicas.differences import Difference
from rankdbg.verdicts.replicas.magnitudes import Magnitude
from rankdbg.wire.node_answers import HistoryEvent

ORIGIN = PageOrigin("rankdbg history", "local", "2026-11-18T03:11:26+00:00")
RANKS = [Rank(ProcessKey("node", 100 + n, 1), "train", n) for n in range(4)]
REDUCES = HistoryEvent(1, 0, "collective", "all_reduce", count=41)
STEPS = HistoryEvent(2, 0, "step", count=42)
HISTORIES = [RankHistory(rank, events=(STEPS if rank.number == 2 else REDUCES,)) for rank in RANKS]


def classes(colouring: Colouring) -> dict[str, tuple[str, bool]]:
    return {each["ranks"]: (each["says"], each["odd"]) for each in colouring["classes"]}


def test_where_ranks_parted() -> None:
    """Both events, and the ranks by which of them they have. One that has no history has a cell."""
    departure = Departure(41, (RANKS[2],), (RANKS[0], RANKS[1]))
    parted = ShownDeparture(departure, EventDifference(None, STEPS, REDUCES))
    page = document_of_history(
        JobHistory("train", HISTORIES[:3], parted=[parted], missing=RANKS[3:]), ORIGIN
    )
    verdict = page["verdict"]
    assert verdict["title"] == "Rank 2 parted from ranks 0-1 in step 41."
    assert (verdict["culprits"], verdict["mark"]) == ("2", "parted from the others")
    assert [fact["name"] for fact in verdict["facts"]] == ["ranks 0-1", "rank 2"]
    (colouring,) = page["colourings"]
    assert colouring["name"] == "step 41"
    assert classes(colouring) == {
        "0-1": ("as most", False),
        "2": ("parted", True),
        "3": ("not compared with these", False),
    }


def test_events_that_are_no_longer_kept() -> None:
    departure = Departure(41, (RANKS[2],), tuple(RANKS[:2]))
    page = document_of_history(
        JobHistory("train", HISTORIES, parted=[ShownDeparture(departure, None)]), ORIGIN
    )
    assert "no longer kept" in page["verdict"]["facts"][0]["text"]


def test_ranks_that_have_not_parted() -> None:
    """By their last events, and none stands out."""
    page = document_of_history(JobHistory("train", HISTORIES), ORIGIN)
    assert page["verdict"]["title"].startswith("No difference")
    assert (page["verdict"]["culprits"], page["verdict"]["facts"]) == ("", [])
    assert classes(page["colourings"][0]) == {"0-1,3": ("", False), "2": ("", False)}


def difference(name: str, *groups: list[Rank]) -> Difference:
    return Difference("parameter", name, tuple(map(tuple, groups)), (4,), "float32")


def test_tensors_that_differ() -> None:
    """A colouring for each; ranks that need not have it alike are apart."""
    odd = difference("norm.weight", RANKS[:2], RANKS[2:3])
    page = document_of_replicas(Replicas(RANKS, RANKS, (odd,), 7, 1), ORIGIN)
    assert (page["verdict"]["culprits"], page["verdict"]["mark"]) == ("2", "differ")
    (colouring,) = page["colourings"]
    assert colouring["name"] == "norm.weight"
    assert classes(colouring) == {
        "0-1": ("equal", False),
        "2": ("differ", True),
        "3": ("not compared with these", False),
    }


def test_ranks_that_were_not_compared() -> None:
    """They are not called equal."""
    without = [Silence(RANKS[3], "no model of torch was found")]
    page = document_of_replicas(Replicas(RANKS, RANKS, (), 7, 1, without=without), ORIGIN)
    told = {each["ranks"]: each["text"] for each in page["colourings"][0]["classes"]}
    assert told == {"0-2": "no difference", "3": "not compared"}


def test_nobody_is_accused_of_rounding_or_without_a_majority() -> None:
    rounded = difference("w", RANKS[:3], RANKS[3:])
    place = RANKS[3].process, "parameter", "w"
    small = Replicas(RANKS, RANKS, (rounded,), 7, 1, magnitudes={place: Magnitude(3e-8, True)})
    halves = Replicas(RANKS, RANKS, (difference("w", RANKS[:2], RANKS[2:]),), 7, 1)
    equal = Replicas(RANKS, RANKS, (), 7, 1)
    for found in (small, halves, equal):
        page = document_of_replicas(found, ORIGIN)
        assert page["verdict"]["culprits"] == ""
        assert not any(odd for _, odd in classes(page["colourings"][0]).values())
