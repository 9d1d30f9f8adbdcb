"""Sentences about modules and operators: what is a fault, and what is not known to be one."""

from __future__ import annotations

import pytest

from rankdbg.investigations.replicas.computation_words import modules_text, operator_text
from rankdbg.investigations.replicas.findings import Computation, FirstDifference, Machine
from rankdbg.investigations.replicas.results import Replicas
from rankdbg.types import ProcessKey, Rank
from rankdbg.verdicts.replicas.odd_modules import ModulePass, OddModule
from rankdbg.verdicts.replicas.odd_operators import Kind, OddOperator, OperatorPass

RANKS = tuple(Rank(ProcessKey("node7", n, 1), "train", n) for n in range(4))
H200 = {rank.process: Machine(f"NVIDIA H200 GPU-{rank.number}", "NVIDIA H200") for rank in RANKS}
MIXED = {**H200, RANKS[3].process: Machine("NVIDIA A100 GPU-3", "NVIDIA A100")}


def modules(
    odd: tuple[Rank, ...] = (), again: bool | None = None, compared: int = 3, phase: str = "forward"
) -> Computation:
    first = OddModule("layers.1", "Linear", phase, RANKS, odd) if odd else None
    return Computation(ModulePass(5, compared, first), 7, again)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "Not compared: the ranks reported no step"),
        (modules(), "3 of 5 module calls, forward and backward, had equal inputs"),
        (modules(compared=0), "None of 5 module calls had equal inputs"),
        (modules(RANKS[3:], True), "Linear layers.1 returns different outputs"),
        (modules(RANKS[3:], True, phase="backward"), "The backward pass of layers.1 (Linear)"),
        (modules(RANKS[3:], False), "rank 3, but not in a second step"),
        (modules(RANKS[2:], True), "ranks 2-3, in two steps."),
        (modules(RANKS, True), "which one is wrong is not known"),
        (Computation(ModulePass(0, 0, None), 7), "compiled"),
    ],
)
def test_modules(found: Computation | None, text: str) -> None:
    """Of modules alone no rank is suspected."""
    assert text in modules_text(found, RANKS)
    assert operator_text(found, RANKS) == ""
    assert not is_faulty(found)


def is_faulty(found: Computation | None) -> bool:
    return Replicas(RANKS, RANKS, (), 7, first=FirstDifference(None, (), (), found)).is_faulty


def operators(
    kind: Kind = "outputs",
    odd: tuple[Rank, ...] = RANKS[3:],
    repeats: bool | None = True,
    machines: dict[ProcessKey, Machine] = H200,
    again: bool = True,
) -> Computation:
    module = OddModule("layers.1", "Linear", "forward", RANKS, odd)
    values = ("1.0", "2.0") if kind in ("operator", "arguments") else ()
    first = OddOperator(kind, "aten.add.Tensor", "forward", RANKS, odd, values, repeats)
    passed = OperatorPass(9, first)
    return Computation(ModulePass(5, 5, module), 7, again, passed, machines)


def test_silent_data_corruption() -> None:
    """One rank, equal inputs, other outputs, in two steps and repeated: its GPU and host are named."""
    found = operators()
    text = operator_text(found, RANKS)
    assert (
        "aten.add.Tensor returns different outputs for inputs that are equal bit for bit in rank 3"
        in text
    )
    assert "silent data corruption. It ran on NVIDIA H200 GPU-3 of host node7." in text
    assert is_faulty(found)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (operators(repeats=False), "not deterministic, which is not a fault"),
        (operators(repeats=None), "cannot be repeated"),
        (operators(machines=MIXED), "computes on NVIDIA A100, the others on NVIDIA H200"),
        (operators(odd=RANKS), "Which ranks are wrong is not known"),
        (operators(odd=RANKS[2:]), "Which ranks are wrong is not known"),
        (operators("arguments"), "called with different arguments in rank 3: 2.0 instead of 1.0"),
        (operators("operator"), "rank 3: 2.0 where others have 1.0"),
        (operators("inputs"), "not an input, parameter or buffer of the module"),
    ],
)
def test_what_is_no_corruption(found: Computation, text: str) -> None:
    said = operator_text(found, RANKS)
    assert text in said
    assert "corruption" not in said
    assert not is_faulty(found)


def test_operators_that_were_not_seen() -> None:
    module = OddModule("layers.1", "Linear", "forward", RANKS, RANKS[3:])
    for seen, text in ((0, "No operator was seen"), (9, "9 operators were followed")):
        found = Computation(ModulePass(5, 5, module), 7, True, OperatorPass(seen, None), H200)
        assert text in operator_text(found, RANKS)
        assert not is_faulty(found)
