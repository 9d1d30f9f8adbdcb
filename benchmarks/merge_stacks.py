"""Merging and grouping the stacks of 100,000 ranks, 40 frames each.

The peer is a plain dictionary trie: a dict and a set of ranks for every frame, as such trees
are usually written. Every case runs in a process of its own, so that its peak memory is its own.
No two stacks share an object except strings, as when each came in its own message; peak memory
includes them.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

from rankdbg.grouping import group_stacks, merge_stacks
from rankdbg.types import Frame

BUDGET = "budget: merge + group under 3 s, peak under 1024 MB"
NAMES = [(f"function_{i}", f"/opt/site-packages/package/module_{i}.py") for i in range(64)]

Frames = tuple[Frame, ...]
Stacks = list[tuple[int, Frames]]


def line_of_12(rank: int, depth: int, frames: int) -> int:
    """Twelve stacks that part half way."""
    return rank % 12 if depth >= frames // 2 else 0


def line_of_innermost(rank: int, depth: int, frames: int) -> int:
    """All equal but the line of the innermost frame."""
    return rank if depth == frames - 1 else depth


def line_of_outermost(rank: int, depth: int, frames: int) -> int:
    """No frame in common from the outermost on."""
    return rank * frames + depth


def line_of_binary(rank: int, depth: int, frames: int) -> int:
    """Every second frame is one of two lines: a bit of the rank's number."""
    return rank >> (depth // 2) & 1 if depth % 2 else depth


CASES: dict[str, Callable[[int, int, int], int]] = {
    "12 distinct": line_of_12,
    "distinct innermost": line_of_innermost,
    "distinct outermost": line_of_outermost,
    "distinct binary": line_of_binary,
}


def make_stacks(case: str, ranks: int, frames: int) -> Stacks:
    line = CASES[case]
    depths = range(frames - 1, -1, -1)  # innermost first
    return [
        (rank, tuple(Frame(*NAMES[depth % 64], line(rank, depth, frames)) for depth in depths))
        for rank in range(ranks)
    ]


def merge_in_dicts(stacks: Stacks) -> object:
    root: tuple[dict[Frame, object], set[int]] = ({}, set())
    for rank, frames in stacks:
        node = root
        for frame in reversed(frames):
            node[1].add(rank)
            found = node[0].get(frame)
            if found is None:
                found = node[0][frame] = ({}, set())
            node = found  # type: ignore[assignment]
        node[1].add(rank)
    return root


def group_still_and_moving(stacks: Stacks) -> object:
    """Half of the ranks move, since the two are grouped in different ways."""
    return group_stacks((rank, frames, rank % 2 == 1) for rank, frames in stacks)


def measure(what: str, case: str, ranks: int, frames: int) -> dict[str, float]:
    stacks = make_stacks(case, ranks, frames)
    steps = [merge_in_dicts] if what == "peer" else [merge_stacks, group_still_and_moving]
    kept, seconds = [], []
    for step in steps:
        start = time.perf_counter()
        kept.append(step(stacks))
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"merge": seconds[0], "group": seconds[-1], "peak": peak}


def measure_apart(*arguments: object) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", *map(str, arguments)]
    return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=100_000)
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        what, case, ranks, frames = options.one
        print(json.dumps(measure(what, case, int(ranks), int(frames))))
        return
    print(f"{options.ranks} ranks x {options.frames} frames; {BUDGET}")
    print(f"{'':20}{'merge':>8}{'group':>8}{'peak':>10}   plain trie: merge, peak")
    for case in CASES:
        ours = measure_apart("ours", case, options.ranks, options.frames)
        peer = measure_apart("peer", case, options.ranks, options.frames)
        print(
            f"{case:20}{ours['merge']:6.2f} s{ours['group']:6.2f} s{ours['peak']:7.0f} MB"
            f"   {peer['merge']:6.2f} s ({peer['merge'] / ours['merge']:.1f} x),"
            f" {peer['peak']:.0f} MB ({peer['peak'] / ours['peak']:.1f} x)",
            flush=True,
        )


if __name__ == "__main__":
    main()
