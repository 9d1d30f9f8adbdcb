"""Inputs of whole models -> ranks along tp that get other data."""

from __future__ import annotations

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.odd_data import OddData, find_odd_data
from rankdbg.wire.replica_answers import ModuleCall


def found(inputs: str, *names: str, tp: str = "tp") -> tuple[OddData, ...]:
    """Of 4 ranks, dp=2 x tp=2: what each of them gives to its model."""
    ranks = [
        Rank(ProcessKey("here", n, 1), "train", n, coordinates={"dp": n // 2, tp: n % 2})
        for n in range(4)
    ]
    calls = {
        rank.process: [ModuleCall(name, "Linear", given, "w", "o") for name in names or ("",)]
        for rank, given in zip(ranks, inputs, strict=True)
    }
    return find_odd_data(ranks, calls)


def test_replicas_have_other_data() -> None:
    assert found("1122") == ()
    assert found("1234", tp="ep") == ()


def test_ranks_with_parts_of_the_same_layers() -> None:
    (odd,) = found("1123")
    assert (odd.dimension, [rank.number for rank in odd.odd]) == ("tp", [2, 3])


def test_only_whole_models() -> None:
    """The inputs of layers inside differ rightly: each has a part."""
    odd = found("1211", "actor.mlp", "actor", "critic")
    assert [each.module for each in odd] == ["actor", "critic"]
