"""Calls of modules -> the first with equal inputs and other outputs."""

from __future__ import annotations

from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.odd_modules import ModulePass, find_odd_module
from rankdbg.wire.replica_answers import ModuleCall

RANKS = [Rank(ProcessKey("here", n, 1), "train", n) for n in range(4)]


def look(*of_ranks: str) -> ModulePass:
    """Of each rank words NAME:INPUTS:PARAMETERS:OUTPUTS, in the order of its calls."""
    calls = {
        rank.process: [
            ModuleCall(name, "Linear", i, p, o.rstrip("?"), o.endswith("?"))
            for name, i, p, o in (word.split(":") for word in text.split())
        ]
        for rank, text in zip(RANKS, of_ranks, strict=False)
    }
    return find_odd_module(RANKS, calls)


def odd(found: ModulePass) -> tuple[str, list[int | None]] | None:
    first = found.first
    return (first.module, [rank.number for rank in first.odd]) if first else None


def test_equal_outputs() -> None:
    assert look(*["a:1:w:2 b:2:v:3"] * 3) == ModulePass(2, 2, None)


def test_the_first_of_several() -> None:
    usual = "a:1:w:2 b:2:v:3 c:3:u:4"
    found = look(usual, "a:1:w:2 b:2:v:9 c:9:u:8", usual)
    assert odd(found) == ("b", [1])
    assert found.first and found.first.has_majority


def test_other_inputs_or_parameters_explain_other_outputs() -> None:
    """Of data that differs, and of a parameter that was changed."""
    assert look("a:1:w:2", "a:7:w:8", "a:5:w:6") == ModulePass(1, 0, None)
    assert odd(look("a:1:w:2 b:2:v:3", "a:1:x:9 b:9:v:8", "a:1:w:2 b:2:v:3")) is None


def test_two_ranks_have_no_majority() -> None:
    found = look("a:1:w:2", "a:1:w:3")
    assert odd(found) == ("a", [0, 1])
    assert found.first and not found.first.has_majority


def test_random_modules_are_passed_over() -> None:
    assert odd(look("drop:1::2?", "drop:1::3?", "drop:1::4?")) is None


def test_a_module_that_is_called_twice() -> None:
    usual = "a:1:w:2 a:2:w:3"
    assert odd(look(usual, usual, "a:1:w:2 a:2:w:9")) == ("a", [2])
    assert look(usual, usual).calls == 2


def test_modules_without_inputs() -> None:
    assert look("a::w:2", "a::w:3") == ModulePass(1, 0, None)


def test_backward_passes_are_compared_apart() -> None:
    """A module and the nodes of its backward pass have one name."""
    calls = {
        rank.process: [
            ModuleCall("a", "Linear", "1", "w", "2"),
            ModuleCall("a", "AddmmBackward0", "3", "w", made, phase="backward"),
        ]
        for rank, made in zip(RANKS, "4494", strict=True)
    }
    found = find_odd_module(RANKS, calls)
    assert (found.calls, found.compared) == (2, 2)
    assert found.first is not None
    assert (found.first.phase, found.first.type) == ("backward", "AddmmBackward0")
    assert odd(found) == ("a", [2])
