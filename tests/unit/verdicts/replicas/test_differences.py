"""Hashes of ranks' tensors -> those that should be equal and are not."""

from __future__ import annotations

from collections.abc import Mapping

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.differences import Difference, count_undecided, find_differences
from rankdbg.wire.replica_answers import ReplicaTensor


def rank(number: int, **coordinates: int) -> Rank:
    key = ProcessKey("here", 100 + number, 1)
    return Rank(key, "train", number, kind="rank", coordinates=coordinates)


MESH = [rank(n, dp=n // 2, tp=n % 2) for n in range(8)]
PLAIN = [rank(n, hosts=0, gpus=n) for n in range(4)]


def differ(
    ranks: list[Rank], name: str, hashes: list[str], across: tuple[str, ...] = (), **fields: object
) -> list[Difference]:
    tensors: Mapping[ProcessKey, list[ReplicaTensor]] = {
        each.process: [ReplicaTensor("parameter", name, text, shape=(4,), **fields)]  # type: ignore[arg-type]
        for each, text in zip(ranks, hashes, strict=True)
    }
    return find_differences(ranks, tensors, across)


def numbers(difference: Difference) -> list[list[int | None]]:
    return [[each.number for each in group] for group in difference.groups]


def test_without_a_mesh_all_are_replicas() -> None:
    (found,) = differ(PLAIN, "layers.0.weight", ["a", "a", "b", "a"])
    assert numbers(found) == [[0, 1, 3], [2]]
    assert [each.number for each in found.odd] == [2]
    assert differ(PLAIN, "layers.0.weight", ["a"] * 4) == []


def test_parts_of_a_layer_differ_and_replicas_of_a_part_do_not() -> None:
    """Each rank of tp has its part of a weight; along dp they are equal."""
    assert differ(MESH, "layers.0.mlp.weight", ["a", "b"] * 4) == []
    (found,) = differ(MESH, "layers.0.mlp.weight", ["a", "b", "a", "b", "a", "x", "a", "b"])
    assert numbers(found) == [[1, 3, 7], [5]]


def test_norms_are_equal_along_tp_too() -> None:
    (found,) = differ(MESH, "layers.0.norm.weight", ["a", "b"] + ["a"] * 6)
    assert [each.number for each in found.odd] == [1]


def test_parts_of_biases_are_not_reported() -> None:
    """A layer that is split by hand, in which nothing is wrong: only the bias of the sum is whole."""
    shapes = {"norm.weight": (8,), "up.weight": (16, 8), "up.bias": (16,), "down.weight": (8, 16)}

    def look(whole: str) -> list[str]:
        tensors = {}
        for n, each in enumerate(MESH):
            parts = [ReplicaTensor("parameter", k, f"{n % 2}", shape=s) for k, s in shapes.items()]
            parts[0] = ReplicaTensor("parameter", "norm.weight", "same", shape=(8,))
            bias = ReplicaTensor("parameter", "down.bias", whole[n % 2], shape=(8,))
            tensors[each.process] = [*parts, bias]
        assert count_undecided(MESH, tensors) == 0
        return [each.name for each in find_differences(MESH, tensors)]

    assert look("aa") == []
    assert look("ab") == ["down.bias"]


def test_biases_of_which_nothing_is_known() -> None:
    tensors = {r.process: [ReplicaTensor("parameter", "q.bias", "a", shape=(4,))] for r in MESH}
    assert count_undecided(MESH, tensors) == 1
    assert count_undecided(PLAIN, {r.process: [] for r in PLAIN}) == 0


def test_along_which_dimension() -> None:
    (found,) = differ(MESH, "norm.weight", ["a", "b"] * 4)
    assert found.along == ("tp",)
    (found,) = differ(MESH, "norm.weight", ["a", "b"] + ["a"] * 6)
    assert found.along == ()
    (found,) = differ(PLAIN, "w", [*"abcd"])
    assert found.along == ()  # GPUs are places


def test_dtensors_say_themselves() -> None:
    sharded = {"placement": (("dp", "replicate"), ("tp", "shard"))}
    assert differ(MESH, "w.norm", ["a", "b"] * 4, **sharded) == []
    (found,) = differ(MESH, "w", ["a", "b"] * 3 + ["a", "x"], **sharded)
    assert [each.number for each in found.odd] == [7]
    whole = {"placement": (("dp", "shard"), ("tp", "replicate"))}
    assert differ(MESH, "w", [*"aabbccdd"], **whole) == []


def test_parts_of_different_sizes_are_not_compared() -> None:
    tensors = {
        each.process: [ReplicaTensor("parameter", "w", str(n), shape=(n + 1,))]
        for n, each in enumerate(PLAIN)
    }
    assert find_differences(PLAIN, tensors) == []


def test_no_majority_names_none() -> None:
    (found,) = differ(PLAIN[:2], "w", ["a", "b"])
    assert not found.has_majority


def test_said_by_hand() -> None:
    assert len(differ(MESH, "w", ["a", "b"] * 4, across=("tp",))) == 4
