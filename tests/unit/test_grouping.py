"""grouping.py: equal answers, odd ones out, spreads, moving stacks, the merged tree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rankdbg.grouping import (
    TreeNode,
    common_stack,
    group_equal,
    group_stacks,
    merge_stacks,
    odd_ones_out,
    spread,
)
from rankdbg.types import Frame, ProcessKey, Rank

NAN = math.nan

# So few functions and lines that stacks often share frames, end inside others, and repeat.
frames = st.builds(Frame, st.sampled_from("fgh"), st.just("train.py"), st.integers(1, 2))
stack_values = st.lists(frames, max_size=6).map(tuple)
numbered_stacks = st.lists(stack_values, max_size=30).map(lambda stacks: list(enumerate(stacks)))
numbers = st.one_of(
    st.floats(), st.integers(), st.booleans(), st.sampled_from([10**400, -(10**400)])
)


def walk_tree(roots: Sequence[TreeNode[Any]]) -> Iterator[tuple[int, TreeNode[Any]]]:
    """Every node with its depth in nodes, parents first. Does not recurse."""
    todo = [(0, root) for root in reversed(roots)]
    while todo:
        depth, node = todo.pop()
        yield depth, node
        todo += [(depth + 1, child) for child in reversed(node.children)]


def stack(text: str) -> tuple[Frame, ...]:
    """Frames from "main:1 step:5", written outermost first, given innermost first."""
    parts = (word.split(":") for word in text.split())
    return tuple(Frame(function, "train.py", int(line)) for function, line in parts)[::-1]


def text(frames: tuple[Frame, ...]) -> str:
    """Frames as they stand, in the notation of `stack`."""
    return " ".join(f"{frame.function}:{frame.line}" for frame in frames)


def outline(roots: list[TreeNode[int]]) -> list[tuple[int, str, list[int], list[int]]]:
    return [(depth, text(n.frames), n.members, n.ends) for depth, n in walk_tree(roots)]


# Equal answers


def test_groups_come_biggest_first_then_in_order_of_arrival() -> None:
    """The biggest group is first; groups of one size are in the order of their first members."""
    pairs = list(enumerate("abccdc"))
    assert group_equal(pairs) == [("c", [2, 3, 5]), ("a", [0]), ("b", [1]), ("d", [4])]


def test_every_nan_is_the_same_answer() -> None:
    """nan differs from itself, but ranks that all say nan agree."""
    [(value, members)] = group_equal([(0, float("nan")), (1, float("nan"))])
    assert members == [0, 1]
    assert isinstance(value, float) and math.isnan(value)


def test_equal_numbers_of_different_types_are_different_answers() -> None:
    """1, 1.0 and True are three answers, although Python says they are equal."""
    assert [members for _, members in group_equal(enumerate([1, 1.0, True, 1]))] == [
        [0, 3],
        [1],
        [2],
    ]


def test_members_need_no_hash() -> None:
    """Ranks can be members as they are, although their coordinates cannot be hashed."""
    rank = Rank(ProcessKey("node-1", 4711, 1), "job", coordinates={"tp": 0})
    assert group_equal([(rank, 1)]) == [(1, [rank])]
    assert group_stacks([(rank, stack("main:1"), False)])[0].members == (rank,)
    assert merge_stacks([(rank, stack("main:1"))])[0].members == [rank]


@given(st.lists(st.integers(0, 3)))
def test_groups_are_a_partition(values: list[int]) -> None:
    """Every member is in exactly one group, the one of its value, in the order of arrival."""
    groups = group_equal(enumerate(values))
    assert dict(groups) == {
        value: [i for i, other in enumerate(values) if other == value] for value in set(values)
    }


@pytest.mark.parametrize(
    ("sizes", "odd"),
    [
        ([7, 1], [1]),
        ([1, 7], [0]),
        ([1023, 1], [1]),
        ([6, 1, 1], [1, 2]),
        ([2, 1], [1]),
        ([800, 200], [1]),
        ([800, 201], []),
        ([5, 3], []),
        ([4, 4], []),
        ([512, 511, 1], []),
        ([2, 1, 1], []),
        ([1, 1], []),
        ([1, 1, 1, 1], []),
        ([1], []),
        ([], []),
    ],
)
def test_odd_ones_are_small_against_a_majority(sizes: list[int], odd: list[int]) -> None:
    """Odd is who stands against more than half, alone or with at most a quarter as many."""
    assert [i for i, is_odd in enumerate(odd_ones_out(sizes)) if is_odd] == odd


# Numbers


def outliers(*values: float) -> list[float]:
    return [value for _, value in spread(list(enumerate(values))).outliers]


def test_spread_is_of_the_finite_values() -> None:
    """Count, minimum, median and maximum leave nan and infinities out; outliers name them."""
    found = spread([("a", 3.0), ("b", NAN), ("c", 1.0), ("d", math.inf), ("e", 2.0)])
    assert (found.count, found.minimum, found.median, found.maximum) == (3, 1.0, 2.0, 3.0)
    assert found.outliers == (("b", NAN), ("d", math.inf))


def test_without_a_finite_value_the_spread_is_nan() -> None:
    """All nan, or nothing at all: count 0, and nan for the rest."""
    for values in ([(0, NAN), (1, NAN)], []):
        found = spread(values)
        assert found.count == 0
        assert all(map(math.isnan, (found.minimum, found.median, found.maximum)))
        assert len(found.outliers) == len(values)


def test_integers_stay_integers() -> None:
    """A step number is shown as it was given, not as a float."""
    found = spread([(0, 4180), (1, 4180), (2, 2**60 + 1)])
    assert (str(found.minimum), str(found.maximum)) == ("4180", str(2**60 + 1))


def test_noise_in_a_tight_cluster_is_not_an_outlier() -> None:
    """2.3146 among many 2.3145 is not news, whether the others agree exactly or nearly."""
    assert outliers(*[2.3145] * 7, 2.3146) == []
    assert outliers(*[2.3145 + i * 1e-7 for i in range(7)], 2.3146) == []


def test_a_far_value_is_an_outlier_even_if_all_others_agree() -> None:
    """With a median absolute deviation of 0, more than 1 % off is far."""
    assert outliers(*[2.3145] * 7, 2.4) == [2.4]
    assert outliers(0.0, 0.0, 0.0, 1e-3) == [1e-3]


def test_a_wide_cluster_has_no_outliers() -> None:
    """What is far depends on how wide the rest spread."""
    assert outliers(1.0, 2.0, 3.0, 4.0, 5.0, 9.0) == []
    assert outliers(1.0, 2.0, 3.0, 4.0, 5.0, 90.0) == [90.0]


def test_many_outliers_do_not_hide_each_other() -> None:
    """Three of eight ranks far off are all named."""
    assert outliers(1.0, 1.1, 0.9, 1.0, 1.05, 50.0, 60.0, 1e30) == [50.0, 60.0, 1e30]


def test_two_values_have_no_outlier() -> None:
    """Of two that differ, nobody can say which is wrong."""
    assert outliers(1.0, 100.0) == []


def test_an_integer_beyond_float_is_an_outlier() -> None:
    """It counts as infinite, and is named with its own value."""
    assert outliers(1, 1, 10**400) == [10**400]


@given(st.lists(numbers))
@example([1.7e308, -1.7e308, 1.7e308])
@example([int(1.7e308), -int(1.7e308)])
@example([2**60 + 1, 2**60 + 3])
def test_spread_takes_every_number(values: list[float]) -> None:
    """No mix of numbers raises; the median lies in the range; all that is not finite is named."""
    found = spread(list(enumerate(values)))
    if found.count:
        # As floats: the middle of two large integers is rounded.
        assert float(found.minimum) <= float(found.median) <= float(found.maximum)
    assert len(found.outliers) >= len(values) - found.count


# Moving and standing stacks


def test_equal_samples_stand_still() -> None:
    """A thread whose samples are equal, lines and all, does not move."""
    here = stack("main:1 step:5 wait:7")
    assert common_stack([here, here, here]) == (here, False)


def test_one_sample_stands_still_and_none_is_empty() -> None:
    """One sample shows no movement; no sample at all is an empty stack."""
    assert common_stack([stack("main:1")]) == (stack("main:1"), False)
    assert common_stack([]) == ((), False)


def test_a_moving_thread_is_where_its_samples_agree() -> None:
    """The common outermost functions stand for it, with the lines of the last sample."""
    samples = [stack("main:1 step:5 load:7"), stack("main:1 step:6 save:9 write:2")]
    assert common_stack(samples) == (stack("main:1 step:6"), True)


def test_a_change_of_line_is_movement() -> None:
    """The same functions at another line: moving, and nothing is cut off."""
    assert common_stack([stack("main:1 f:5"), stack("main:1 f:6")]) == (stack("main:1 f:6"), True)


def test_samples_with_nothing_in_common_show_the_last() -> None:
    """If not even the outermost function is the same, the last sample stands for the thread."""
    assert common_stack([stack("a:1"), stack("b:1 c:2")]) == (stack("b:1 c:2"), True)


def test_functions_of_other_files_are_other_functions() -> None:
    """Two functions that share only their names are not a common frame."""
    here, there = Frame("step", "a.py", 1), Frame("step", "b.py", 1)
    assert common_stack([(here,), (there,)]) == ((there,), True)
    assert len(group_stacks([(0, (here,), True), (1, (there,), True)])) == 2


def test_lines_separate_only_those_that_stand_still() -> None:
    """Movers share a group across lines, shown with the first one's; standing ones do not."""
    five, six = stack("main:1 step:5"), stack("main:1 step:6")
    groups = group_stacks([(0, five, True), (1, six, True), (2, five, False), (3, six, False)])
    assert [(g.frames, g.moving, g.members) for g in groups] == [
        (five, False, (2,)),
        (six, False, (3,)),
        (five, True, (0, 1)),
    ]


def test_the_smallest_group_of_stacks_is_first() -> None:
    """The few are first, then the many; of one size, first come first."""
    groups = group_stacks((i, stack(f"{name}:1"), False) for i, name in enumerate("aabcc"))
    assert [g.members for g in groups] == [(2,), (0, 1), (3, 4)]


@given(st.lists(st.tuples(stack_values, st.booleans())))
def test_groups_of_stacks_are_a_partition(
    given_stacks: list[tuple[tuple[Frame, ...], bool]],
) -> None:
    """Every member is in exactly one group, which has its movement and its functions, of those
    that move the outer ones at least."""
    groups = group_stacks((i, *given_stack) for i, given_stack in enumerate(given_stacks))
    assert sorted(m for g in groups for m in g.members) == list(range(len(given_stacks)))
    for group in groups:
        for member in group.members:
            its_frames, moving = given_stacks[member]
            assert moving == group.moving
            functions, wanted = ([f[:2] for f in fs] for fs in (its_frames, group.frames))
            assert functions[len(functions) - len(wanted) :] == wanted
            assert moving or its_frames == group.frames


def test_those_that_move_deeper_belong_to_those_that_move_outside() -> None:
    """A thread seen in train < main and one seen in loss < train < main move alike."""
    main, train, loss = (
        Frame("main", "a.py", 9),
        Frame("train", "a.py", 5),
        Frame("loss", "a.py", 2),
    )
    groups = group_stacks([("a", (loss, train, main), True), ("b", (train, main), True)])
    assert [(group.frames, group.members) for group in groups] == [((train, main), ("b", "a"))]


# The merged tree


def test_stacks_share_a_trunk_and_part_where_they_differ() -> None:
    """Common frames are one node; where ranks part, the bigger branch is first."""
    reading = stack("main:120 step:86 read:31 open:4")
    waiting = stack("main:120 step:86 reduce:88 wait:9")
    assert outline(merge_stacks([(0, reading), (1, waiting), (2, waiting)])) == [
        (0, "main:120 step:86", [0, 1, 2], []),
        (1, "reduce:88 wait:9", [1, 2], [1, 2]),
        (1, "read:31 open:4", [0], [0]),
    ]


def test_lines_of_one_function_are_branches() -> None:
    """Two ranks in one function at different lines are on different branches."""
    roots = merge_stacks([(0, stack("main:1 step:5")), (1, stack("main:1 step:6"))])
    assert [text(node.frames) for _, node in walk_tree(roots)] == ["main:1", "step:5", "step:6"]


@pytest.mark.parametrize("short_one_first", [True, False])
def test_a_stack_can_end_inside_the_tree(short_one_first: bool) -> None:
    """A rank whose stack is the beginning of another's ends in the node that both share."""
    stacks = [(0, stack("main:1 step:5")), (1, stack("main:1 step:5 wait:7"))]
    assert outline(merge_stacks(stacks if short_one_first else stacks[::-1])) == [
        (0, "main:1 step:5", [0, 1] if short_one_first else [1, 0], [0]),
        (1, "wait:7", [1], [1]),
    ]


def test_members_are_in_the_callers_order() -> None:
    """However the branches lie, a node lists its members as they were given."""
    stacks = [(i, stack(f"main:1 step:{i % 3 + 1}")) for i in (5, 3, 4, 1, 0, 2)]
    assert merge_stacks(stacks)[0].members == [5, 3, 4, 1, 0, 2]


def test_empty_stacks_are_a_last_root_without_frames() -> None:
    """Ranks of which no frame is known are not lost."""
    assert outline(merge_stacks([(0, ()), (1, stack("main:1")), (2, ())])) == [
        (0, "main:1", [1], [1]),
        (0, "", [0, 2], [0, 2]),
    ]
    assert merge_stacks([]) == []


def test_depth_is_not_limited_by_recursion() -> None:
    """A tree 1,500 nodes deep, one rank ending at each, is built, walked and freed."""
    deepest = stack(" ".join(f"recurse:{i}" for i in range(1500)))
    roots = merge_stacks([(i, deepest[i:]) for i in range(1500)])
    assert [node.ends for _, node in walk_tree(roots)] == [[i] for i in reversed(range(1500))]
    assert roots[0].members == list(range(1500))
    del roots


@given(numbered_stacks)
def test_the_tree_holds_every_stack_exactly(stacks: list[tuple[int, tuple[Frame, ...]]]) -> None:
    """The runs on the way to where a member ends, put together, are its stack."""
    found = {}
    path: list[TreeNode[int]] = []
    for depth, node in walk_tree(merge_stacks(stacks)):
        path[depth:] = [node]
        for member in node.ends:
            assert member not in found
            found[member] = tuple(frame for above in path for frame in above.frames)[::-1]
    assert found == dict(stacks)


@given(numbered_stacks)
def test_the_tree_is_compressed_and_sorted(stacks: list[tuple[int, tuple[Frame, ...]]]) -> None:
    """A node ends because a member ends or members part, and the biggest child is first."""
    for _, node in walk_tree(merge_stacks(stacks)):
        children = node.children
        assert node.ends or len(children) > 1
        assert len({child.frames[0] for child in children}) == len(children)
        assert node.size == len(node.members)
        assert sorted(node.members) == sorted(sum((c.members for c in children), node.ends))
        assert [c.size for c in children] == sorted((c.size for c in children), reverse=True)


@given(numbered_stacks, st.randoms(use_true_random=False))
def test_the_order_of_ranks_does_not_change_the_tree(
    stacks: list[tuple[int, tuple[Frame, ...]]], random: Random
) -> None:
    """Permuted input gives the same nodes with the same members."""
    permuted = list(stacks)
    random.shuffle(permuted)

    def nodes(of: list[tuple[int, tuple[Frame, ...]]]) -> Counter[object]:
        return Counter(
            (depth, node.frames, frozenset(node.members), frozenset(node.ends))
            for depth, node in walk_tree(merge_stacks(of))
        )

    assert nodes(permuted) == nodes(stacks)
