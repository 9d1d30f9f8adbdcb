"""Hashes that ranks have kept -> since when they differ."""

from __future__ import annotations

import pytest

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.kept_steps import FirstDifferingStep, find_since

RANKS = [Rank(ProcessKey("here", n, 1), "train", n) for n in range(3)]


def since(*histories: dict[int, str]) -> FirstDifferingStep | None:
    pairs = zip(RANKS, histories, strict=False)
    return find_since(RANKS, {rank.process: each for rank, each in pairs})


SAME = {1: "a", 2: "b", 3: "c", 4: "d"}


@pytest.mark.parametrize(
    ("odd", "found", "text"),
    [
        (
            {1: "a", 2: "b", 3: "x", 4: "y"},
            FirstDifferingStep(3, 2),
            "since step 3; equal at step 2",
        ),
        ({1: "x", 2: "x", 3: "x", 4: "y"}, FirstDifferingStep(1, None), "at least since step 1"),
        (SAME, FirstDifferingStep(None, 4), "since a step after 4"),
        # equal again in between: the last time counts
        (
            {1: "x", 2: "b", 3: "c", 4: "x"},
            FirstDifferingStep(4, 3),
            "since step 4; equal at step 3",
        ),
        # steps that it does not have are not compared
        ({1: "a", 4: "x"}, FirstDifferingStep(4, 1), "since step 4; equal at step 1"),
    ],
)
def test_since(odd: dict[int, str], found: FirstDifferingStep, text: str) -> None:
    assert since(SAME, odd, SAME) == found
    assert str(found) == text
    assert found.at_least == text.startswith("at least")


def test_without_common_steps() -> None:
    assert since(SAME, {7: "a"}, SAME) is None
    assert since(SAME, SAME) is None  # one rank keeps none
