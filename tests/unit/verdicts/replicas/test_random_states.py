"""States of generators: notes about what a program may not have meant."""

from __future__ import annotations

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.differences import find_differences
from rankdbg.verdicts.replicas.random_states import find_random_notes
from rankdbg.wire.replica_answers import ReplicaTensor


def rank(number: int, **coordinates: int) -> Rank:
    return Rank(ProcessKey("here", number, 1), "train", number, coordinates=coordinates)


MESH = [rank(n, dp=n // 2, tp=n % 2) for n in range(4)]
PLAIN = [rank(n, hosts=0, gpus=n) for n in range(3)]


def notes(ranks: list[Rank], states: str) -> list[tuple[str, bool, list[int | None], int]]:
    tensors = {
        each.process: [ReplicaTensor("random", "cuda", text)]
        for each, text in zip(ranks, states, strict=True)
    }
    assert find_differences(ranks, tensors) == []
    return [
        (note.dimension, note.equal, [each.number for each in note.ranks], note.sets)
        for note in find_random_notes(ranks, tensors)
    ]


def test_as_most_programs_want_it() -> None:
    """Equal along tp, different along dp."""
    assert notes(MESH, "aabb") == []
    assert notes(PLAIN, "abc") == []


def test_equal_in_replicas() -> None:
    assert notes(MESH, "aaaa") == [("dp", True, [0, 2], 2)]
    assert notes(PLAIN, "aba") == [("", True, [0, 2], 1)]


def test_different_along_tp() -> None:
    assert notes(MESH, "abcd") == [("tp", False, [0, 1], 2)]


def test_dimensions_for_something_else() -> None:
    assert notes([rank(n, pp=n) for n in range(2)], "aa") == []
