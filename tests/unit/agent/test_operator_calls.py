"""Operators of one module, forward and backward, and what they make when they are repeated."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from rankdbg.agent.replicas.found_tensors import Holders  # noqa: E402, needs torch
from rankdbg.agent.replicas.module_calls import CallTrace  # noqa: E402

nn = torch.nn


class Block(nn.Module):  # type: ignore[misc]
    """A function that does `compute`, between two modules."""

    def __init__(self, compute: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.compute = nn.Linear(4, 4), nn.Linear(4, 2), compute

    def forward(self, x: Any) -> Any:
        return self.last(self.compute(self.first(x)))


def operators_of(model: Any, inside: str = "") -> list[dict[str, Any]]:
    trace = CallTrace([*model.named_modules()], "", inside)
    trace.begin()
    model(torch.ones(3, 4)).sum().backward()
    trace.end()
    assert all("forward" not in vars(each) for each in model.modules())
    return trace.operators()


def named(operators: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = (each for each in operators if each["name"] == name)
    return found


@pytest.mark.slow
def test_operators_of_one_module() -> None:
    """Its own, those of the modules inside of it, and the nodes of the backward pass of these."""
    found = operators_of(Block(lambda x: x * 2.5))
    scaled = named(found, "aten.mul.Tensor")
    assert (scaled["arguments"], scaled["free"]) == ("2.5", "")
    assert scaled["outputs"] == scaled["repeated"] != ""
    last = operators_of(Block(lambda x: x * 2.5), "last")
    assert last[0]["phase"] == "forward"
    node = named(last, "AddmmBackward0")
    assert (node["phase"], node["outputs"]) == ("backward", node["repeated"])
    assert not any(each["name"] == "aten.mul.Tensor" for each in last)


def test_what_the_program_computes_is_the_same() -> None:
    plain, traced = Block(torch.relu_), Block(torch.relu_)
    plain(torch.ones(3, 4)).sum().backward()
    operators_of(traced)
    for one, two in zip(plain.parameters(), traced.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)


def test_changes_in_place() -> None:
    """They are repeated on copies, and what has changed is an output."""
    found = named(operators_of(Block(lambda x: x.mul_(3))), "aten.mul_.Tensor")
    assert found["inputs"] != found["outputs"] == found["repeated"]


def test_random_numbers() -> None:
    """They are not drawn twice: the program goes on with the same ones."""
    torch.manual_seed(1)
    expected = [torch.rand(3, 4) for _ in range(2)][1]
    drawn: list[Any] = []

    def draw(x: Any) -> Any:
        drawn.append(torch.rand(3, 4))
        return x

    model = Block(draw)
    torch.manual_seed(1)
    operators = operators_of(model)
    found = next(each for each in operators if "rand" in each["name"])
    assert (found["free"], found["repeated"]) == ("random", "")
    assert torch.equal(torch.rand(3, 4), expected)


def test_memory_that_is_not_set() -> None:
    found = operators_of(Block(lambda x: x + torch.empty(4).fill_(1)))
    assert named(found, "aten.empty.memory_format")["free"] == "memory"


def test_a_kernel_that_computes_wrongly() -> None:
    """Only in this operator inputs are equal and outputs are not, and again."""
    model = Block(torch.special.erfcx)
    right = operators_of(model)
    library = torch.library.Library("aten", "IMPL")
    library.impl("special_erfcx", lambda x: x * 1.5, "CPU")
    try:
        wrong = operators_of(model)
    finally:
        library._destroy()
    pairs = [*zip(right, wrong, strict=True)]
    one, two = next((one, two) for one, two in pairs if one != two)
    assert one["name"] == two["name"] == "aten.special_erfcx.default"
    assert one["inputs"] == two["inputs"]
    assert one["outputs"] != two["outputs"] == two["repeated"]


def test_a_kernel_that_is_not_deterministic() -> None:
    """Its repetition makes something else."""
    turns: list[int] = []

    def kernel(x: Any) -> Any:
        turns.append(1)
        return x * (1 + len(turns) * 1e-6)

    library = torch.library.Library("aten", "IMPL")
    library.impl("special_erfcx", kernel, "CPU")
    try:
        found = named(operators_of(Block(torch.special.erfcx)), "aten.special_erfcx.default")
    finally:
        library._destroy()
    assert found["outputs"] != found["repeated"]


def test_functions_of_the_program_are_not_repeated_backwards() -> None:
    """They may call other ranks."""
    calls: list[int] = []

    class Own(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            calls.append(1)
            return gradient * 2

    class Layer(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return Own.apply(x)

    model = nn.Sequential(nn.Linear(4, 4), Layer())
    found = named(operators_of(model, "1"), "OwnBackward")
    assert (found["repeated"], len(calls)) == ("", 1)


def test_an_exception_of_the_program() -> None:
    """It is the program's, and no mode stays."""

    def fails(x: Any) -> Any:
        raise ValueError("own")

    model = Block(fails)
    trace = CallTrace([*model.named_modules()], "", "")
    trace.begin()
    with pytest.raises(ValueError, match="own"):
        model(torch.ones(3, 4))
    assert torch._C._len_torch_dispatch_stack() == 0
    trace.end()
    assert trace.operators()


def test_a_forward_function_of_the_object_itself() -> None:
    """As accelerate sets it: it is there again afterwards."""
    model = Block(torch.relu)
    own = model.first.forward
    model.first.forward = own
    trace = CallTrace([*model.named_modules()], "", "first")
    trace.begin()
    model(torch.ones(3, 4))
    trace.end()
    assert model.first.__dict__["forward"] is own
    assert trace.operators()


def test_compiled_modules() -> None:
    """What is compiled is one module, whose operators are not followed. It is not compiled anew for
    the hooks, nor are these compiled into it."""
    torch._dynamo.reset()
    compiled = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend="eager")
    model = nn.Sequential(nn.Linear(4, 4), compiled)
    expected = model(torch.ones(3, 4))
    counted = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    modules = [each for each in Holders().modules() if each[1] in [*model.modules()]]
    inside = Holders().name_of(compiled)
    trace = CallTrace(modules, "", inside)
    trace.begin()
    made = model(torch.ones(3, 4))
    trace.end()
    assert torch.equal(made, expected)
    assert inside in [each["name"] for each in trace.calls()]
    assert trace.operators() == []
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == counted
    torch._dynamo.reset()
