"""Ranks of the job behind the numbers that torchrun's agent gives its workers.

With --tee, each line of a worker begins with its number on the host: `[default3]:`. Its rank is in
what the agent says when its workers start (global_ranks=[8, 9, …]), in a line of that worker that
names both (`[default3]:[rank11]: …`), or in the box of the agent (`rank : 11 (local_rank: 3)`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter

from rankdbg.logs.patterns import FileScan
from rankdbg.verdicts.rules import clues

LOCAL_LABEL = re.compile(r"^\s*\[(?:[A-Za-z_]\w*?\|)?(?!(?i:rank))[A-Za-z_]+(\d+)\]:")
_BOTH = re.compile(LOCAL_LABEL.pattern + r".{0,200}?(?:\[[Rr]ank[ =]?(\d+)\]|\bRank (\d+)\])")
_BOX = re.compile(r"\brank +: (\d+) \(local_rank: (\d+)\)")


class LocalRanks:
    """Of one file."""

    def __init__(self, scan: FileScan) -> None:
        self._told: list[tuple[int, list[int]]] = []  # from which place on, and the ranks
        bases: Counter[int] = Counter()
        for hit in scan.hits:
            if hit.pattern == clues.IDENTITY:
                if found := clues.find(clues.GLOBAL_RANKS, hit.text):
                    self._told.append((hit.offset, [int(n) for n in found["ranks"].split(",")]))
                for box in _BOX.finditer("\n".join(hit.after)):
                    bases[int(box[1]) - int(box[2])] += 1
            elif "]:" in hit.head and (both := _BOTH.match(hit.head)):
                bases[int(both[2] or both[3]) - int(both[1])] += 1
        # Several workers agree, or the label is no number on the host.
        self._base = next(iter(bases)) if len(bases) == 1 else 0

    def rank_of(self, local: int, offset: int) -> int:
        """Where nothing is known, the number itself: of a job on one host these are the same."""
        above = bisect_right(self._told, offset, key=lambda told: told[0])
        ranks = self._told[above - 1][1] if above else []
        return ranks[local] if local < len(ranks) else local + self._base
