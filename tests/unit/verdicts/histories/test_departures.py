"""What ranks did -> who left the others, at which step."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.histories.departures import (
    Departure,
    RankHistory,
    find_departures,
    find_difference,
    find_under_way,
)
from rankdbg.wire.node_answers import HistoryEvent


def history(number: int, calls: Sequence[int], first: int = 0) -> RankHistory:
    """Of a rank whose steps from the first one on have these hashes of calls."""
    rank = Rank(ProcessKey("here", 100 + number, 1), "train", number, kind="rank")
    return RankHistory(rank, tuple((first + n, hashed, 0, 3) for n, hashed in enumerate(calls)))


def numbers(departure: Departure) -> tuple[int | None, list[int | None], list[int | None]]:
    odd, others = departure.ranks, departure.others
    return departure.step, [rank.number for rank in odd], [rank.number for rank in others]


def test_one_left_long_ago() -> None:
    usual = [1] * 100
    skipped = [1] * 41 + [2] + [1] * 58
    found = find_departures([history(n, skipped if n == 2 else usual) for n in range(4)])
    assert [*map(numbers, found.departures)] == [(41, [2], [0, 1, 3])]
    assert found.compared == (0, 99)


def test_what_follows_from_it_is_not_another_departure() -> None:
    usual = [1] * 100
    lost = [1] * 41 + [2] * 59
    found = find_departures([history(n, lost if n == 2 else usual) for n in range(4)])
    assert [departure.step for departure in found.departures] == [41]


def test_equal_ranks_have_not_parted() -> None:
    found = find_departures([history(n, [1, 2, 3] * 10) for n in range(4)])
    assert found.departures == ()


def test_stages_of_a_pipeline_are_classes_of_their_own() -> None:
    """They never do the same; one of the second stage leaves its own kind."""
    first, second = [1] * 20, [5] * 20
    left = [5] * 12 + [6] + [5] * 7
    ranks = [history(n, first) for n in range(3)]
    ranks += [history(n, left if n == 4 else second) for n in range(3, 6)]
    found = find_departures(ranks)
    assert [*map(numbers, found.departures)] == [(12, [4], [3, 5])]


def test_a_rank_that_is_alone_of_its_kind_is_not_accused() -> None:
    found = find_departures(
        [history(0, [9] * 10 + [7] * 10), *(history(n, [1] * 20) for n in (1, 2))]
    )
    assert found.departures == ()


def test_no_majority_accuses_none() -> None:
    """Half of them did one thing and half another: nothing says who left."""
    half, other = [1] * 10 + [2] * 10, [1] * 10 + [3] * 10
    found = find_departures([history(n, half if n < 2 else other) for n in range(4)])
    assert found.departures == ()


def test_steps_that_some_no_longer_know() -> None:
    """One rank notes more in a step, so its file reaches less far back."""
    ranks = [history(n, [1] * 50) for n in range(3)]
    ranks.append(history(3, [1] * 10 + [2] + [1] * 9, first=30))
    found = find_departures(ranks)
    assert [*map(numbers, found.departures)] == [(40, [3], [0, 1, 2])]
    assert found.compared == (30, 49)


# --- within a step ----------------------------------------------------------------------------


def events(*words: str) -> list[HistoryEvent]:
    """`s7` begins step 7, `m:accepted=0` is a mark, all else a call at the line of its place."""
    found = []
    for index, word in enumerate(words):
        if word[1:].isdigit():
            found.append(HistoryEvent(index, 0, "step", count=int(word[1:])))
        elif word.startswith("m:"):
            name, _, value = word[2:].partition("=")
            found.append(HistoryEvent(index, 0, "mark", name, value=int(value)))
        else:
            found.append(HistoryEvent(index, 0, "collective", word, "t.py:1 f", ("0", "pg", "4")))
    return found


def test_a_call_that_was_left_out() -> None:
    theirs = events("s41", "all_reduce [8]", "m:accepted=0", "s42")
    others = events("s41", "all_reduce [8]", "m:accepted=17", "all_reduce [8]", "s42")
    found = find_difference(theirs, others)
    assert found is not None
    assert found.common is not None and found.common.name == "all_reduce [8]"
    assert found.theirs is not None and found.theirs.count == 42
    assert found.others is not None and found.others.kind == "collective"
    assert [mark.value for mark in found.their_marks] == [0]
    assert [mark.value for mark in found.others_marks] == [17]


def test_shapes_and_lines_may_differ() -> None:
    assert find_difference(events("s1", "all_to_all [8]"), events("s1", "all_to_all [9]")) is None


def test_one_has_come_further() -> None:
    found = find_difference(events("s1", "barrier"), events("s1", "barrier", "broadcast"))
    assert found is not None and found.theirs is None
    assert found.others is not None and found.others.name == "broadcast"


# --- what has not become a step yet -----------------------------------------------------------


def under_way(*stories: str) -> list[tuple[list[int | None], list[int | None]]]:
    histories = [
        RankHistory(history(number, []).rank, events=tuple(events(*story.split())))
        for number, story in enumerate(stories)
    ]
    found = find_under_way(histories, [])
    return [
        ([rank.number for rank in each.ranks], [rank.number for rank in each.others])
        for each, _ in found
    ]


def broadcast_from(root: int, group: str, index: int = 1) -> HistoryEvent:
    kind, place = "collective", "t.py:1 f"
    return HistoryEvent(index, 0, kind, "broadcast [8]", place, (group, "dp", "2"), 2, root)


def parted_by_roots(*calls: HistoryEvent) -> list[list[int | None]]:
    histories = [
        RankHistory(history(number, []).rank, events=(*events("s1"), call))
        for number, call in enumerate(calls)
    ]
    return [[rank.number for rank in each.ranks] for each, _ in find_under_way(histories, [])]


def test_another_root() -> None:
    """One rank broadcasts from another rank than all others of the group."""
    calls = [broadcast_from(2 if number == 2 else 0, "1") for number in range(4)]
    assert parted_by_roots(*calls) == [[2]]


def test_each_group_has_its_own_root() -> None:
    """Halves of a dimension of the mesh broadcast from the first rank of each."""
    calls = [broadcast_from(number // 2 * 2, f"half{number // 2}") for number in range(4)]
    assert parted_by_roots(*calls) == []


def test_one_is_in_another_call() -> None:
    before = "s1 " + "all_reduce " * 9
    assert under_way(before + "all_reduce", before + "barrier", before + "all_reduce") == [
        ([1], [0, 2])
    ]


def test_who_is_late_has_not_parted() -> None:
    before = "s1 " + "all_reduce " * 9
    assert under_way(before, before + "barrier", before + "barrier broadcast") == []


def test_stages_without_steps() -> None:
    first, second = "send recv " * 9, "recv send " * 9
    assert under_way(first, second, first, second) == []
