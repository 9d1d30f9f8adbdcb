"""Sentences about replicas: what is known, and what is not."""

from __future__ import annotations

import pytest

from rankdbg.investigations.replicas import words
from rankdbg.investigations.replicas.findings import FirstDifference, KeptSteps
from rankdbg.investigations.replicas.results import Replicas
from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.causes import Cause
from rankdbg.verdicts.replicas.differences import Difference
from rankdbg.verdicts.replicas.kept_steps import FirstDifferingStep
from rankdbg.verdicts.replicas.magnitudes import Magnitude
from rankdbg.verdicts.replicas.random_states import RandomNote

RANKS = tuple(Rank(ProcessKey("node7", n, 1), "train", n) for n in range(4))
ODD = Difference("parameter", "w", (RANKS[:3], RANKS[3:]), (4,), "float32")


@pytest.mark.parametrize(
    ("magnitude", "text"),
    [
        (Magnitude(0.0003, False), "differs, max |Δ| 0.0003"),
        (Magnitude(0.5, False, partial=True), "differs, max |Δ| at least 0.5"),
        (Magnitude(3e-8, True), "differs within rounding of float32, max |Δ| 3e-08"),
        (Magnitude(None, False, 2), "differs, 2 nan or inf in one of the two only"),
    ],
)
def test_how_far(magnitude: Magnitude, text: str) -> None:
    assert words.magnitude_text(magnitude, "float32") == text


def test_rounding_alone_is_no_fault() -> None:
    """All of it must be; what was compared in part, or not at all, is not known to be."""
    place = RANKS[3].process, "parameter", "w"
    for magnitude, faulty in [
        ({place: Magnitude(3e-8, True)}, False),
        ({place: Magnitude(3e-8, True, partial=True)}, True),
        ({place: Magnitude(3e-2, False)}, True),
        ({}, True),
    ]:
        found = Replicas(RANKS, RANKS, (ODD,), 7, 1, magnitudes=magnitude)
        assert found.is_faulty is faulty
        assert ("within rounding" in found.summary()) is not faulty


def test_one_sentence_for_one_cause() -> None:
    """Of several tensors, and of sets of ranks in which the same one differs."""
    causes = [
        Cause("buffer", "a", RANKS),
        Cause("left out", "b", RANKS[2:3]),
        Cause("buffer", "c", RANKS),
        Cause("left out", "b", RANKS[3:]),
        Cause("settings", "d", RANKS[:2], ("lr 1", "lr 2")),
    ]
    buffers, left_out, settings = words.cause_texts(causes, RANKS)
    assert buffers.startswith("a (and 1 more) is a buffer (ranks 0-3)")
    assert left_out.startswith("b is left out of the optimizer in ranks 2-3;")
    assert settings == "The optimizers update d with different settings (ranks 0-1): lr 1 / lr 2."


def test_biases_that_were_not_compared() -> None:
    assert words.undecided_text(1).endswith("layers: 1 bias that may be a part of a layer")
    assert words.undecided_text(3).endswith("layers: 3 biases that may be parts of a layer")


@pytest.mark.parametrize(
    ("since", "text"),
    [
        (None, "the step is not known, as no hashes are kept (--every N): w (rank 3)"),
        (FirstDifferingStep(8, 6), "since step 8; equal at step 6: w (rank 3)"),
        (FirstDifferingStep(8, None), "at least since step 8: w (rank 3)"),
        (FirstDifferingStep(None, 8), "since a step after 8, the last kept one: w (rank 3)"),
    ],
)
def test_the_first(since: FirstDifferingStep | None, text: str) -> None:
    assert words.first_text(FirstDifference(since, (ODD,), (), None), RANKS) == text


def test_causes_name_tensor_and_ranks() -> None:
    for kind in words.CAUSES:
        text = words.cause_text(Cause(kind, "w", RANKS[3:], ("lr 1", "lr 2")), RANKS)
        assert "w " in text or "w." in text
        assert "{" not in text
        assert "rank 3" in text or kind == "rounding"


def test_generators() -> None:
    same = words.random_text(RandomNote("cuda", "dp", True, RANKS[:2], 3), RANKS)
    assert same.startswith(
        "cuda generator: ranks 0-1 (and 2 more such sets of ranks) have the same"
    )
    assert "different states along tp" in words.random_text(
        RandomNote("cuda", "tp", False, RANKS[:2]), RANKS
    )


def test_what_is_kept() -> None:
    assert words.keeping_text(KeptSteps()) == ""
    assert words.keeping_text(KeptSteps(1)) == "hashes are kept every step"
    assert (
        words.keeping_text(KeptSteps(5, (10, 20)))
        == "hashes are kept every 5 steps, steps 10 to 20"
    )
