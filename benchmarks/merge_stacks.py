"""Merging and grouping the stacks of 100,000 ranks, 40 frames each.

The peer is a plain dictionary trie: a dict and a set of ranks for every frame, as such trees
are usually written. Every case runs in a process of its own, so that its peak memory is its
own. The stacks share strings but no frames, as if each was decoded from its own message, and
count in the peak.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from rankdbg.grouping import group_stacks, merge_stacks
from rankdbg.types import Frame

BUDGET = "budget: merge + group under 3 s, peak under 1024 MB"
RANKS, FRAMES = 100_000, 40

Stacks = list[tuple[int, tuple[Frame, ...]]]

# The line of a rank's frame at a depth; the outermost is at depth 0.
CASES: dict[str, Callable[[int, int], int]] = {
    # parting half way
    "12 distinct": lambda rank, depth: rank % 12 if depth >= FRAMES // 2 else 0,
    # all distinct: only in the innermost line
    "innermost": lambda rank, depth: rank if depth == FRAMES - 1 else 0,
    # all distinct: from the outermost frame on, and no frame occurs twice
    "outermost": lambda rank, depth: rank * FRAMES + depth,
    # all distinct: every second frame is one of two lines, a bit of the rank's number
    "binary": lambda rank, depth: rank >> (depth // 2) & 1 if depth % 2 else 0,
}


def make_stacks(case: str) -> Stacks:
    line = CASES[case]
    names = [(f"function_{i}", f"/opt/site-packages/package/module_{i}.py") for i in range(FRAMES)]
    inwards = range(FRAMES - 1, -1, -1)
    return [
        (rank, tuple([Frame(*names[depth], line(rank, depth)) for depth in inwards]))
        for rank in range(RANKS)
    ]


def merge_in_dicts(stacks: Stacks) -> object:
    root: tuple[dict[Frame, Any], set[int]] = ({}, set())
    for rank, frames in stacks:
        children, ranks = root
        ranks.add(rank)
        for frame in reversed(frames):
            if frame not in children:
                children[frame] = ({}, set())
            children, ranks = children[frame]
            ranks.add(rank)
    return root


def group_half_moving(stacks: Stacks) -> object:
    """Half of the ranks move, since the two kinds are grouped in different ways."""
    return group_stacks((rank, frames, rank % 2 == 1) for rank, frames in stacks)


def measure(case: str, *steps: Callable[[Stacks], object]) -> list[float]:
    """Seconds for each step, then the peak in MB."""
    stacks = make_stacks(case)
    kept, figures = [], []
    for step in steps:
        gc.collect()  # what came before is not this step's garbage
        start = time.perf_counter()
        kept.append(step(stacks))
        figures.append(time.perf_counter() - start)
    return [*figures, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]


def measure_apart(which: str, case: str) -> list[float]:
    command = [sys.executable, __file__, "--only", which, case]
    return list(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs=2, metavar=("ours|peer", "CASE"))
    only = parser.parse_args().only
    if only:
        steps = [merge_in_dicts] if only[0] == "peer" else [merge_stacks, group_half_moving]
        print(json.dumps(measure(only[1], *steps)))
        return
    print(f"{RANKS} ranks x {FRAMES} frames; {BUDGET}")
    print(f"{'':12}   merge   group   total      peak   plain trie: merge, peak (to ours)")
    for case in CASES:
        merge, group, peak = measure_apart("ours", case)
        trie, trie_peak = measure_apart("peer", case)
        print(
            f"{case:12}{merge:6.2f} s{group:6.2f} s{merge + group:6.2f} s{peak:7.0f} MB"
            f"   {trie:.2f} s ({trie / merge:.1f} x), {trie_peak:.0f} MB ({trie_peak / peak:.1f} x)",
            flush=True,
        )


if __name__ == "__main__":
    main()
