"""Finds where literals may be in a log, by the rarest three bytes of each.

An automaton of a few hundred grams fits into the L1 cache, one of two thousand literals does
not: this halves the time to read a log. The rarest grams are determined from a sample.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import import_module

LENGTH = 3


class Grams:
    """One gram in each literal, as few and as rare ones as can be found."""

    def __init__(self, covers: Mapping[bytes, set[bytes]]) -> None:
        self._covers = covers  # gram -> literals that have it
        self._literals = set[bytes]().union(*covers.values())
        self._reach = max(map(len, self._literals), default=0)
        module = import_module("ahocorasick_rs")
        self._automaton = None
        if covers:
            self._automaton = module.BytesAhoCorasick(
                list(covers), implementation=module.Implementation.DFA
            )

    @staticmethod
    def of(literals: set[bytes], sample: bytes) -> Grams:
        """For a log of which this is a part."""
        return Grams(_cover(literals, sample))

    def only(self, literals: set[bytes]) -> Grams | None:
        """Those of these literals; None if it does not know them all."""
        if not literals <= self._literals:
            return None
        if literals == self._literals:
            return self
        return Grams({gram: own & literals for gram, own in self._covers.items() if own & literals})

    def regions(self, block: memoryview, start: int, until: int) -> Iterator[tuple[int, int]]:
        """Parts of block[start:until] in which a literal may begin, in order and apart."""
        if self._automaton is None:
            return
        part = block[start : until + self._reach]
        first = last = start
        # Of grams that overlap only the first is reported: the others lie in the same region.
        for _, place, _ in self._automaton.find_matches_as_indexes(part):
            place += start
            if place - self._reach > last:
                if first < last:
                    yield first, last
                first = place - self._reach
            last = min(until, place + LENGTH)
        if first < last:
            yield first, last

    def often(self, block: memoryview) -> bool:
        """Whether they are too frequent in this log to be useful."""
        found = self._automaton.find_matches_as_indexes(block) if self._automaton else []
        return len(found) * 400 > len(block)


def _cover(literals: set[bytes], sample: bytes) -> dict[bytes, set[bytes]]:
    """Grams, and the literals for which each stands: always the one that has most literals for
    what it costs."""
    seen = Counter(sample[place : place + LENGTH] for place in range(len(sample)))
    having: dict[bytes, set[bytes]] = {}
    for literal in literals:
        for place in range(len(literal) - LENGTH + 1):
            having.setdefault(literal[place : place + LENGTH], set()).add(literal)

    def gain(gram: bytes) -> float:
        return len(having[gram]) / (0.2 + seen[gram])

    left, covers = set(literals), dict[bytes, set[bytes]]()
    best = [(-gain(gram), gram) for gram in having]
    heapq.heapify(best)
    while left and best:
        before, gram = heapq.heappop(best)
        having[gram] &= left
        if not having[gram]:
            continue
        if -gain(gram) > before:  # it has lost some to others since
            heapq.heappush(best, (-gain(gram), gram))
            continue
        covers[gram] = having[gram]
        left -= covers[gram]
    return covers
