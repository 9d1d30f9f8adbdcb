"""Folding: equal messages of many ranks become one, and nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rankdbg.logs.folding import Folder, fold
from rankdbg.logs.kinds import kinds_of, normalised, of_some, only_of

TIMES = st.one_of(st.none(), st.floats(0, 100))
WRITTEN = st.lists(st.tuples(st.integers(0, 4), TIMES, st.sampled_from("abc")), max_size=60)


def unfolded(folds: list) -> dict[int, list[str]]:  # type: ignore[type-arg]
    lines: dict[int, list[str]] = {}
    for each in folds:
        for who in each.who:
            lines.setdefault(who, []).append(each.text)
    return lines


def by_rank(written: list[tuple[int, float | None, str]]) -> dict[int, list[str]]:
    lines: dict[int, list[str]] = {}
    for who, _, text in written:
        lines.setdefault(who, []).append(text)
    return lines


@given(WRITTEN)
def test_nothing_is_lost(written: list[tuple[int, float | None, str]]) -> None:
    """Unfolded again, every rank has its messages, each as often as it wrote it, in its order."""
    assert unfolded(fold(written)) == by_rank(written)


@given(WRITTEN, st.lists(st.integers(0, 60)))
def test_nothing_is_lost_on_the_way(
    written: list[tuple[int, float | None, str]], taken: list[int]
) -> None:
    """The same, where what is old is taken out while others still come."""
    folder: Folder[int] = Folder()
    folds = []
    for number, (who, time, text) in enumerate(written):
        folder.add(who, time, text)
        if number in taken:
            folds += folder.take(number // 2)
    folds += folder.take()
    assert unfolded(folds) == by_rank(written)
    assert [each.number for each in folds] == sorted(each.number for each in folds)


@given(WRITTEN)
def test_folds_are_equal_messages_nearby(written: list[tuple[int, float | None, str]]) -> None:
    """Nobody is in a fold twice, and with clocks none comes long after the first."""
    ordered = sorted(written, key=lambda each: each[1] or 0.0)
    for each in fold(ordered):
        if each.first is not None and each.last is not None:
            assert each.last - each.first <= 10.0


def test_ranks_that_say_the_same_are_folded() -> None:
    """Step by step: one fold a step, with all its ranks, however their lines alternate."""
    written = [(rank, float(step), f"step {step}") for step in range(3) for rank in range(4)]
    assert [[*each.who] for each in fold(written)] == [[0, 1, 2, 3]] * 3


def test_numbers_that_differ_are_not_folded() -> None:
    """Another loss is another message."""
    assert len(fold([(0, 1.0, "loss 2.31"), (1, 1.0, "loss 2.32")])) == 2


def test_who_is_late_is_not_folded() -> None:
    """The same message half a minute later is one of its own."""
    assert len(fold([(0, 1.0, "ready"), (1, 31.0, "ready")])) == 2


def test_without_clocks_the_order_tells() -> None:
    """Files one after the other, each with the same messages: folded as if they had alternated."""
    written = [(rank, None, text) for rank in range(3) for text in ("a", "b", "a")]
    assert [(each.text, len(each.who)) for each in fold(written)] == [("a", 3), ("b", 3), ("a", 3)]


def test_many_equal_messages_are_quick() -> None:
    """5,000 equal messages of each of 4 ranks take no quadratic time."""
    written = [(rank, 1.0, "warning") for rank in range(4) for _ in range(5_000)]
    assert len(fold(written)) == 5_000


def test_kinds_leave_numbers_out() -> None:
    """Counters, addresses, hashes and lengths of bars do not make a kind; nan does."""
    assert normalised("step 12 loss 2.3e-5 at 0x7f12") == normalised("step 9 loss 1.0 at 0x8a")
    assert normalised("commit 3f2a1bc9 ok") == normalised("commit 99aa00ff ok")
    assert normalised(" 10%|#   | 1/9") == normalised("100%|####| 9/9")
    assert normalised("loss nan") != normalised("loss 2.5")


def test_differences() -> None:
    """What a group has and the others have not, and the other way round."""
    written = [
        *((rank, 1.0, 1.0, f"step {rank}", 5) for rank in range(4)),
        (3, 2.0, 2.0, "retry 1", 2),
        *((rank, 3.0, 3.0, "checkpoint saved", 1) for rank in range(3)),
    ]
    kinds = kinds_of(written)
    assert [(k.text, k.count, k.who) for k in only_of(kinds, {3})] == [("retry 1", 2, {3})]
    assert [k.text for k in only_of(kinds, {0, 1, 2})] == ["checkpoint saved"]
    assert [k.text for k in of_some(kinds, {0, 1, 2, 3})] == ["retry 1", "checkpoint saved"]
