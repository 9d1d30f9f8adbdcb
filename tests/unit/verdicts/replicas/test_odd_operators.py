"""Operators of one module -> the first that differs, and in what."""

from __future__ import annotations

import pytest

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.odd_operators import OddOperator, find_odd_operator
from rankdbg.wire.replica_answers import OperatorCall

RANKS = [Rank(ProcessKey("here", n, 1), "train", n) for n in range(3)]


def operators(text: str) -> list[OperatorCall]:
    """Words NAME:ARGUMENTS:INPUTS:OUTPUTS[:REPEATED]; NAME? need not make equal outputs."""
    found = []
    for word in text.split():
        name, arguments, inputs, outputs, *more = word.split(":")
        free = "random" if name.endswith("?") else ""
        repeated = more[0] if more else outputs
        name = name.rstrip("?")
        found.append(OperatorCall(name, "forward", arguments, inputs, outputs, repeated, free))
    return found


def first(*of_ranks: str) -> OddOperator | None:
    calls = {rank.process: operators(text) for rank, text in zip(RANKS, of_ranks, strict=True)}
    return find_odd_operator(RANKS, calls).first


def odd(found: OddOperator | None) -> list[int | None]:
    assert found is not None
    return [rank.number for rank in found.odd]


USUAL = "mm::1:2 add:1.0:2:3 relu::3:4"


def test_equal_operators() -> None:
    assert first(USUAL, USUAL, USUAL) is None


@pytest.mark.parametrize(
    ("other", "kind", "name"),
    [
        ("mm::1:2 add:1.0:2:9 relu::9:8", "outputs", "add"),
        ("mm::1:2 add:7.0:2:9 relu::9:8", "arguments", "add"),
        ("mm::1:2 mul:1.0:2:9 relu::9:8", "operator", "add"),
        ("mm::1:2 add:1.0:5:9 relu::9:8", "inputs", "add"),
        ("mm::1:2 add:1.0:2:3", "operator", "relu"),
    ],
)
def test_in_what_they_differ(other: str, kind: str, name: str) -> None:
    """The first one, and not what follows from it."""
    found = first(USUAL, other, USUAL)
    assert found is not None
    assert (found.kind, found.name, odd(found)) == (kind, name, [1])
    assert found.has_majority


def test_arguments_are_told() -> None:
    found = first(USUAL, "mm::1:2 add:7.0:2:9", USUAL)
    assert found is not None
    assert found.values == ("1.0", "7.0")


@pytest.mark.parametrize(
    ("words", "repeats"), [("mm::1:9:9", True), ("mm::1:9:8", False), ("mm::1:9:", None)]
)
def test_repetition(words: str, repeats: bool | None) -> None:
    found = first("mm::1:2", "mm::1:2", words)
    assert found is not None
    assert found.repeats is repeats


def test_a_kernel_that_is_not_deterministic_in_the_other_ranks() -> None:
    found = first("mm::1:2:5", "mm::1:2:6", "mm::1:9")
    assert found is not None
    assert found.repeats is False


def test_what_may_differ() -> None:
    """Random numbers, what other ranks send, and what follows from these."""
    one, two = "drop?::1:2 add::2:3", "drop?::1:7 add::7:8"
    assert first(one, one, two) is None
    # Equal inputs must still make equal outputs.
    found = first(f"{one} mm::5:6", f"{one} mm::5:6", f"{two} mm::5:0")
    assert found is not None
    assert (found.kind, found.name) == ("outputs", "mm")
    # Another path may have been taken because of them.
    assert first(f"{one} mm::5:6", f"{one} mm::5:6", f"{two} mul::5:0") is None


def test_no_majority() -> None:
    found = first("mm::1:2", "mm::1:3", "mm::1:4")
    assert found is not None
    assert not found.has_majority
    assert odd(found) == [0, 1, 2]
