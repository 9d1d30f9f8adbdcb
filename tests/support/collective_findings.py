"""Findings about collectives, as tests compare them."""

from __future__ import annotations

from rankdbg.investigations.collectives.collective_words import WorldNames, culprit_sentence
from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.collectives.culprits import CollectiveFindings
from rankdbg.verdicts.collectives.worlds import World


def sentence(found: CollectiveFindings) -> str:
    ranks = {n: Rank(ProcessKey("a", 10 + n, 1), "job", number=n) for n in found.job.ranks}
    names = WorldNames(World(found, ranks), list(ranks.values()))
    return culprit_sentence(found.culprits[0], found, names)


def culprits(found: CollectiveFindings) -> list[tuple[str, tuple[int, ...]]]:
    return [(culprit.reason, culprit.ranks) for culprit in found.culprits]
