"""Which values that are not finite are a fault, which was the first, and where it comes from."""

from __future__ import annotations

import pytest

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.nonfinite.first_values import find_bad, first_of, origin_sentence
from rankdbg.wire.nan_answers import NanFigures, NanFinding, NanReport, NanTensor
from rankdbg.wire.tensor_figures import TensorFigures

RANKS = [Rank(ProcessKey("a", 100 + number, 1), "job", number) for number in range(3)]


def reports(*of_ranks: NanReport) -> dict[ProcessKey, NanReport]:
    return {rank.process: report for rank, report in zip(RANKS, of_ranks, strict=True)}


def tensor(kind: str, nan: int = 0, inf: int = 0) -> NanTensor:
    return NanTensor(kind, "layer.weight", nan, inf)


def test_equal_answers_are_grouped() -> None:
    """The largest group first; the ranks in which the tensor is not finite are named."""
    bad = NanReport((tensor("parameter", nan=2),))
    (found,) = find_bad(RANKS, reports(NanReport(), bad, NanReport()))
    assert [(counts, [rank.number for rank in ranks]) for counts, ranks in found.groups] == [
        ((0, 0), [0, 2]),
        ((2, 0), [1]),
    ]
    assert [rank.number for rank in found.ranks] == [1]


@pytest.mark.parametrize(
    ("report", "is_fault"),
    [
        (NanReport((tensor("parameter", inf=1),)), True),
        (NanReport((tensor("optimizer", inf=1),)), True),
        (NanReport((tensor("gradient", inf=1),)), True),
        (NanReport((tensor("gradient", inf=1),), scale=65536.0), False),
        (NanReport((tensor("gradient", nan=1),), scale=2.0), False),
        (NanReport((tensor("gradient", nan=1),), scale=1.0), True),
        (NanReport((tensor("parameter", nan=1),), scale=65536.0), True),
        (NanReport((tensor("buffer", inf=9),)), False),
        (NanReport((tensor("buffer", nan=1),)), True),
    ],
)
def test_what_is_a_fault(report: NanReport, is_fault: bool) -> None:
    """Masks of -inf are none, nor are gradients that a loss scaler explains."""
    given = reports(report, report, report)
    assert bool(find_bad(RANKS, given)) == is_fault
    assert bool(find_bad(RANKS, given, faults=False)) != is_fault


def finding(**fields: object) -> NanFinding:
    given = {"time": 1.0, "phase": "forward", "kind": "nan", "module": "head", **fields}
    return NanFinding(**given)  # type: ignore[arg-type]


def test_the_first_is_of_the_least_step() -> None:
    """Of several in one step, by the clock; those without a step come last."""
    found = [
        (RANKS[0], finding(step=None, time=0.0)),
        (RANKS[1], finding(step=7, time=3.0)),
        (RANKS[2], finding(step=7, time=2.0)),
        (RANKS[0], finding(step=6, time=9.0)),
    ]
    assert [(each.step, each.time) for _, each in first_of(found)] == [
        (6, 9.0),
        (7, 2.0),
        (7, 3.0),
        (None, 0.0),
    ]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (finding(origin="module"), "head made it: its inputs and its parameters were finite"),
        (
            finding(
                origin="module",
                infinite="body",
                tensors=(NanFigures("input", "[0]", figures=TensorFigures(inf=3)),),
            ),
            "head made it of inf: its inputs had inf, since the output of body, but no nan",
        ),
        (finding(origin="before", previous="body"), "after the output of body"),
        (finding(origin="data"), "what the model was given"),
        (
            finding(
                origin="parameters",
                tensors=(NanFigures("parameter", "weight", figures=TensorFigures(nan=1)),),
            ),
            "its parameters were not finite (weight)",
        ),
        (finding(phase="backward", origin="module"), "the backward pass of head made it"),
        (finding(phase="backward", origin="one of", users=("q", "k")), "one of q, k made it"),
        (finding(phase="backward", origin="operations", which="output"), "often the loss"),
        (finding(phase="optimizer", origin="gradients"), "comes from another rank"),
        (finding(origin="unknown", exact=False), "not known"),
        (finding(origin="a word of a later version"), "not known"),
    ],
)
def test_where_it_comes_from(found: NanFinding, words: str) -> None:
    assert words in origin_sentence(found)
