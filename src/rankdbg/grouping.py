"""Many answers into few: equal ones into groups, numbers into a spread, stacks into one tree.

A member is whatever the caller counts: a `Rank`, its number, a name. Members are carried
along and never compared or hashed, because a `Rank` holds a mapping and has no hash.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeAlias, TypeVar

from rankdbg.types import Frame

M = TypeVar("M")
Frames: TypeAlias = tuple[Frame, ...]


# Equal answers


def group_equal(pairs: Iterable[tuple[M, Hashable]]) -> list[tuple[Hashable, list[M]]]:
    """The different values with the members that gave each: biggest group first, then first come.

    Unlike `==`, this holds 1, 1.0 and True apart, and takes every nan for the same answer
    (a nan that is an item of a tuple still differs from the next one).
    """
    groups: dict[Hashable, tuple[Hashable, list[M]]] = {}
    for member, value in pairs:
        # Only a nan differs from itself.
        key = (type(value), value) if value == value else (type(value),)
        groups.setdefault(key, (value, []))[1].append(member)
    return sorted(groups.values(), key=lambda group: -len(group[1]))


def odd_ones_out(sizes: Sequence[int]) -> list[bool]:
    """Which groups, given their sizes, are worth marking as the odd one out.

    There must be a majority: a group that holds more than half of all members. Against it a
    group is odd if it is a single member, or at most a quarter of the majority's size. So
    7:1, 2:1 and 800:200 have an odd one, 6:1:1 has two; 4:4, 5:3, 2:1:1 and 1:1:1 have none.
    """
    majority = max(sizes, default=0)
    if 2 * majority <= sum(sizes):
        return [False] * len(sizes)
    return [size < majority and (size == 1 or 4 * size <= majority) for size in sizes]


# Numbers

FAR_IN_DEVIATIONS = 5.0
FAR_IN_PROPORTION = 0.01
# The median absolute deviation of normal noise, times this, is its standard deviation.
DEVIATIONS_PER_MAD = 1.4826


@dataclass(frozen=True)
class Spread(Generic[M]):
    """Numbers in one line: count, minimum, median and maximum are those of the finite ones."""

    count: int
    minimum: float  # nan, as median and maximum are, if no value is finite
    median: float
    maximum: float
    outliers: tuple[tuple[M, float], ...]  # in the caller's order


def spread(values: Sequence[tuple[M, float]]) -> Spread[M]:
    """Where the numbers lie, and which members are far from the rest.

    nan and infinities are always outliers, and an integer too large for a float counts as
    infinite. A finite value is one if its distance from the median is more than both

    - 5 standard deviations, estimated as 1.4826 times the median absolute deviation (MAD),
      which the outliers themselves cannot blow up, and
    - 1 % of the median, so that noise in the last digits of a tight cluster is not news.

    If more than half of the values are equal, the MAD is 0 and the second condition decides
    alone; if they are equal to 0, whatever is not 0 is an outlier.
    """
    ordered = sorted(value for _, value in values if _is_finite(value))
    if not ordered:
        return Spread(0, math.nan, math.nan, math.nan, tuple(values))
    median = _median(ordered)
    mad = _median(sorted(_distance(value, median) for value in ordered))
    far = max(FAR_IN_DEVIATIONS * DEVIATIONS_PER_MAD * mad, FAR_IN_PROPORTION * abs(median))
    outliers = tuple(
        (member, value)
        for member, value in values
        if not _is_finite(value) or _distance(value, median) > far
    )
    return Spread(len(ordered), ordered[0], median, ordered[-1], outliers)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond the range of float
        return False


def _distance(value: float, center: float) -> float:
    # As floats, because the difference of two large ints may not fit one; this gives inf.
    return abs(float(value) - float(center))


def _median(ordered: Sequence[float]) -> float:
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    # Halved before they are added: the sum of two large floats is inf.
    return low if low == high else low / 2 + high / 2


# Stacks


def common_stack(samples: Sequence[Frames]) -> tuple[Frames, bool]:
    """The stack that stands for several samples of one thread, and whether the thread moves.

    Equal samples: that stack, not moving. Otherwise the outermost frames that all samples
    share by function and file, with the lines of the last sample; if they share none, the
    last sample.
    """
    if not samples:
        return (), False
    last = samples[-1]
    if all(sample == last for sample in samples):
        return last, False
    shared = 0
    for frames in zip(*map(reversed, samples), strict=False):
        if len({(frame.function, frame.file) for frame in frames}) > 1:
            break
        shared += 1
    return last[len(last) - shared :] or last, True


@dataclass(frozen=True)
class StackGroup(Generic[M]):
    """Members at the same place. If they move, the lines are the first member's."""

    frames: Frames  # innermost first
    moving: bool
    members: tuple[M, ...]


def group_stacks(stacks: Iterable[tuple[M, Frames, bool]]) -> list[StackGroup[M]]:
    """Members by stack, each given as (member, frames, moving): smallest group first, then
    first come, because the few are what one looks for.

    Those that stand still must agree in every line, those that move only in functions and
    files: the line of a moving thread is chance. So is how deep below a function it was seen:
    a group that moves within a function takes in those that move deeper inside it.
    """
    groups: dict[Hashable, tuple[Frames, bool, list[M]]] = {}
    for member, frames, moving in stacks:
        # Turned on its side, a stack is (functions, files, lines): drops the lines at the speed of C.
        place = tuple(zip(*frames, strict=True))[:2] if moving else frames
        groups.setdefault((moving, place), (frames, moving, []))[2].append(member)
    _take_in_deeper_ones(groups)
    return [
        StackGroup(frames, moving, tuple(members))
        for frames, moving, members in sorted(groups.values(), key=lambda group: len(group[2]))
    ]


def _take_in_deeper_ones(groups: dict[Hashable, tuple[Frames, bool, list[M]]]) -> None:
    moving = {
        tuple((frame.function, frame.file) for frame in reversed(frames)): key
        for key, (frames, moves, _) in groups.items()
        if moves
    }
    for place in sorted(moving, key=len, reverse=True):
        for depth in range(1, len(place)):
            outer = moving.get(place[:depth])
            if outer is not None:
                groups[outer][2].extend(groups.pop(moving[place])[2])
                break


# One tree of all stacks


class TreeNode(Generic[M]):
    """A run of frames, outermost first, that exactly the same members have in common.

    Not a dataclass: it splits while the tree grows, it finds members only when asked (a list
    in every node would be members times depth), and == or repr would recurse down the tree.
    """

    __slots__ = ("_all_ranks", "_branches", "_positions", "frames", "size")

    def __init__(self, all_ranks: Sequence[M], frames: Frames, positions: Sequence[int]) -> None:
        self.frames = frames
        self.size = len(positions)  # how many members; len(node.members) has to find them
        self._all_ranks = all_ranks  # in the tree, in the caller's order
        self._positions = positions  # in everybody, of those that end here
        self._branches: dict[Frame, TreeNode[M]] = {}  # by the first frame, first come first

    @property
    def children(self) -> list[TreeNode[M]]:
        """Where the members go on to: biggest first, then first come."""
        return sorted(self._branches.values(), key=lambda node: node.size, reverse=True)

    @property
    def members(self) -> list[M]:
        """All whose stacks pass through this run or end in it, in the caller's order."""
        nodes = [self]
        for node in nodes:  # grows as it goes
            nodes.extend(node._branches.values())
        positions = chain.from_iterable(node._positions for node in nodes)
        return [self._all_ranks[i] for i in sorted(positions)]

    @property
    def ends(self) -> list[M]:
        """Those whose innermost frame is the last of this run, in the caller's order."""
        return [self._all_ranks[i] for i in self._positions]

    def _split(self, at: int) -> None:
        """Leave the first frames here; the rest of the run, with all it has, becomes a child."""
        rest = TreeNode(self._all_ranks, self.frames[at:], self._positions)
        rest.size, rest._branches = self.size, self._branches
        self.frames, self._positions = self.frames[:at], ()
        self._branches = {rest.frames[0]: rest}


def _grow(node: TreeNode[M], frames: Frames, positions: Sequence[int]) -> None:
    """Add a stack, outermost frame first, that was not added before, to the tree of a node."""
    depth, length, size = 0, len(frames), len(positions)
    while True:
        run = node.frames
        end = depth + len(run)
        # Equal but for the last node of the way, and compared in C.
        if frames[depth:end] != run:
            end = depth + _shared(run, frames[depth:end])
            node._split(end - depth)
        node.size += size
        if end == length:
            node._positions = positions
            return
        depth = end
        head = frames[depth]
        child = node._branches.get(head)
        if child is None:
            node._branches[head] = TreeNode(node._all_ranks, frames[depth:], positions)
            return
        node = child


def _shared(run: Frames, other: Frames) -> int:
    shared = 0
    for ours, theirs in zip(run, other, strict=False):
        if ours != theirs:
            break
        shared += 1
    return shared


def merge_stacks(stacks: Sequence[tuple[M, Frames]]) -> list[TreeNode[M]]:
    """One tree of all stacks from the outermost frame inwards: its roots, biggest first.

    Stacks are given innermost first. Two members in one function at different lines are on
    different branches. Members with an empty stack end in one more root, without frames.
    """
    all_ranks = [member for member, _ in stacks]
    distinct: dict[Frames, list[int]] = defaultdict(list)
    for position, (_, frames) in enumerate(stacks):
        distinct[frames].append(position)
    trunk = TreeNode(all_ranks, (), ())
    for frames, positions in distinct.items():
        _grow(trunk, frames[::-1], positions)
    without_frames = [TreeNode(all_ranks, (), trunk._positions)] if trunk._positions else []
    return trunk.children + without_frames
