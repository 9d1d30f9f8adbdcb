"""A file for https://www.speedscope.app: all ranks in one profile, then each separately."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from rankdbg.profiles.documents import Profile
from rankdbg.profiles.tree import CallNode, walk
from rankdbg.types import Frame

UNITS = {"samples": "seconds", "bytes": "bytes", "microseconds": "microseconds"}


class _Frames:
    """Each frame once; profiles refer to them by number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, int], int] = {}

    def number(self, name: str, frame: Frame) -> int:
        return self._numbers.setdefault((name, frame.file, frame.line), len(self._numbers))

    def listing(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "file": file, **({"line": line} if line else {})}
            for name, file, line in self._numbers
        ]


def write(
    out: TextIO,
    profiles: Sequence[Profile],
    tree: CallNode,
    name: str,
    whose: Callable[[Sequence[int]], str],
) -> None:
    """`whose`: returns the ranks of these profiles as text."""
    frames = _Frames()
    made = [_merged(tree, len(profiles), frames, whose)]
    made += [
        _of_rank(profile, f"rank {whose([index])} · {profile.rank.host}", frames)
        for index, profile in enumerate(profiles)
    ]
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name,
        "activeProfileIndex": 0,
        "exporter": "rankdbg",
        "shared": {"frames": frames.listing()},
        "profiles": made,
    }
    json.dump(document, out, separators=(",", ":"))


def _merged(
    tree: CallNode, count: int, frames: _Frames, whose: Callable[[Sequence[int]], str]
) -> dict[str, Any]:
    """The mean of all ranks. A frame that only some ranks have names them."""
    samples, weights = [], []
    for above, node in walk(tree):
        if not node.own:
            continue
        way = []
        for part in (*above[1:], node):
            few = f" [{whose(sorted(part.shares))}]" if len(part.shares) < count else ""
            way.append(frames.number(f"{part.place[0]}{few}", part.frame))
        samples.append(way)
        weights.append(round(100 * sum(node.own.values()) / count, 4))
    return _sampled("all ranks: per cent of each, on average", "none", samples, weights)


def _of_rank(profile: Profile, name: str, frames: _Frames) -> dict[str, Any]:
    samples, weights = [], []
    for stack in profile.stacks:
        thread = frames.number(stack.thread, Frame(stack.thread, "", 0))
        way = [frames.number(frame.function, frame) for frame in stack.frames]
        samples.append([thread, *way])
        weights.append(stack.weight / profile.rate if profile.rate else stack.weight)
    return _sampled(name, UNITS.get(profile.unit, "none"), samples, weights)


def _sampled(
    name: str, unit: str, samples: list[list[int]], weights: list[float]
) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": name,
        "unit": unit,
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
