"""The stacks of all ranks as one tree; each node has its weight in each rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rankdbg.profiles.documents import Profile
from rankdbg.types import Frame

Place = tuple[str, str]  # function and file: the sampled line is random


class CallNode:
    """Not a dataclass: there are many, and they grow."""

    __slots__ = ("children", "lines", "own", "place", "shares")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.shares: dict[int, float] = {}  # by the index of the profile, including children
        self.own: dict[int, float] = {}  # without
        self.lines: Counter[int] = Counter()
        self.children: dict[Place, CallNode] = {}

    @property
    def frame(self) -> Frame:
        """With the line that was sampled most."""
        line = self.lines.most_common(1)[0][0] if self.lines else 0
        return Frame(*self.place, line)

    def most(self) -> float:
        return max(self.shares.values(), default=0.0)


def grow(profiles: Sequence[Profile]) -> CallNode:
    """Threads are the first level, by name; equal names of all ranks are merged."""
    root = CallNode(("all", ""))
    for index, profile in enumerate(profiles):
        for stack in profile.stacks:
            share = profile.share(stack.weight)
            node = root
            _add(node, index, share)
            for place, line in _ways(stack.thread, stack.frames):
                node = node.children.setdefault(place, CallNode(place))
                node.lines[line] += 1
                _add(node, index, share)
            node.own[index] = node.own.get(index, 0.0) + share
    return root


def _add(node: CallNode, index: int, share: float) -> None:
    node.shares[index] = node.shares.get(index, 0.0) + share


def _ways(thread: str, frames: Sequence[Frame]) -> Iterator[tuple[Place, int]]:
    yield (thread, ""), 0
    for frame in frames:
        yield (frame.function, frame.file), frame.line


def walk(root: CallNode) -> Iterator[tuple[tuple[CallNode, ...], CallNode]]:
    """Each node with the nodes above it, the outermost first. Does not recurse."""
    todo: list[tuple[tuple[CallNode, ...], CallNode]] = [((), root)]
    while todo:
        above, node = todo.pop()
        yield above, node
        todo += [((*above, node), child) for child in node.children.values()]


def prune(root: CallNode, most: int) -> float:
    """Keep the `most` heaviest nodes, by the rank in which each is heaviest; returns the share
    below which nodes were removed. Children never weigh more than their parent."""
    weights = sorted((node.most() for _, node in walk(root)), reverse=True)
    if len(weights) <= most:
        return 0.0
    least = weights[most]
    for _, node in list(walk(root)):
        node.children = {p: child for p, child in node.children.items() if child.most() > least}
    return least
