"""Hashes of tensors: equal bits have equal hashes, and any other bit another one."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from rankdbg.agent import card  # noqa: E402, needs torch
from rankdbg.agent.replicas import found_tensors, tensor_hashes  # noqa: E402
from rankdbg.agent.replicas.found_tensors import Holders, plain_name  # noqa: E402
from rankdbg.agent.replicas.tensor_hashes import (  # noqa: E402
    device_hash,
    figures,
    finished,
    hash_tensors,
    kind_of,
)

SMALL, LARGE = 1003, 300_000  # of 8,192 numbers and more the hash is made of sums


def hashed(tensor: Any) -> str:
    (found,) = hash_tensors([tensor])
    return found


@pytest.mark.parametrize("size", [0, 1, 7, SMALL, LARGE])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.bool, torch.complex64]
)
def test_equal_bits(size: int, dtype: Any) -> None:
    tensor = torch.arange(size).to(dtype)
    assert hashed(tensor) == hashed(tensor.clone())


@pytest.mark.parametrize("size", [1, 7, SMALL, LARGE])
def test_every_bit_counts(size: int) -> None:
    tensor = torch.linspace(-1, 1, size)
    before = hashed(tensor)
    for place in {0, size // 2, size - 1}:
        for bit in (0, 22, 31):
            changed = tensor.clone()
            changed.view(torch.int32)[place] ^= 1 << bit if bit < 31 else -(1 << 31)
            assert hashed(changed) != before, (place, bit)


def test_many_at_once() -> None:
    """Each has the hash that it has alone, whatever is hashed beside it."""
    sizes = [0, 1, 3, SMALL, LARGE, 8192, 8193, 20_000] * 4
    kinds = (torch.float32, torch.bfloat16, torch.int8, torch.float64)
    tensors = [torch.arange(size).to(kinds[n % 4]) for n, size in enumerate(sizes)]
    alone = [hashed(each) for each in tensors]
    assert hash_tensors(tensors) == alone
    single = [finished(int(device_hash(torch, each)), kind_of(each)) for each in tensors]
    assert [f"{each:016x}" for each in single] == alone


@pytest.mark.parametrize("size", [LARGE // 2, LARGE // 2 + 1])
def test_copies_are_let_go(size: int) -> None:
    """What waits to be weighted keeps no copy of a large tensor alive whose memory is not in order."""
    tensor = torch.arange(2.0 * size).view(size, 2).t()
    kept = sum(part.untyped_storage().nbytes() for part in tensor_hashes._parts(torch, tensor))
    assert 0 < kept < tensor.numel() * tensor.element_size() / 10


def test_more_than_are_weighted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of a tensor that is too large for it have an order, and each of its bits counts."""
    monkeypatch.setattr(tensor_hashes, "_MOST_NUMBERS", 32)
    large = torch.arange(float(LARGE))
    others = [torch.arange(20.0) + n for n in range(40)]
    before = hash_tensors([*others, large])
    assert before == [*map(hashed, [*others, large])]
    halves = torch.cat([large[LARGE // 2 :], large[: LARGE // 2]])
    assert hashed(halves) != before[-1]
    for place in (0, LARGE // 2, LARGE - 1):
        changed = large.clone()
        changed[place] += 1
        assert hashed(changed) != before[-1]


def test_places_count() -> None:
    """In a small tensor each; in a large one those that are far from each other."""
    small, large = torch.arange(100.0), torch.arange(float(LARGE))
    assert hashed(small) != hashed(small.flip(0))
    assert hashed(large) != hashed(large.flip(0))


def test_what_is_not_in_the_bits_counts() -> None:
    zeros = torch.zeros(4, 4)
    others = (torch.zeros(2, 8), torch.zeros(16), torch.zeros(4, 4, dtype=torch.int32))
    assert len({hashed(each) for each in (zeros, *others)}) == 4


def test_memory_that_is_not_in_order() -> None:
    """A transposed matrix, every second number, and one that does not begin at 8 bytes."""
    matrix = torch.arange(12.0).view(3, 4)
    assert hashed(matrix.t()) == hashed(matrix.t().contiguous())
    assert hashed(matrix[:, ::2]) == hashed(matrix[:, ::2].contiguous())
    assert hashed(torch.arange(9.0)[1:]) == hashed(torch.arange(1.0, 9.0))


def test_nan_is_a_value_like_others() -> None:
    broken = torch.full((5,), float("nan"))
    assert hashed(broken) == hashed(broken.clone())
    assert hashed(broken) != hashed(torch.zeros(5))


def test_figures() -> None:
    values = torch.tensor([3.0, -4.0, float("nan"), float("inf")])
    assert figures(values) == {"nan": 1, "inf": 1, "norm": 5.0, "min": -4.0, "max": 3.0}
    assert figures(torch.tensor([2, 1]))["max"] == 2
    assert figures(torch.empty(0))["norm"] is None


def test_tensors_of_models_and_optimizers() -> None:
    """By their names in the model, whatever is wrapped around it; models that are being built have
    no values yet."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    wrapped = torch.nn.ModuleDict({"module": model})
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    unbuilt = torch.nn.Linear(2, 2, device="meta")
    found = {
        (each.kind, each.name)
        for each in Holders().tensors(("parameter", "buffer", "gradient", "optimizer"))
    }
    # Other tests may have left models of the same names.
    found |= {(kind, name.partition("wrapped.")[2]) for kind, name in found}
    assert {("parameter", "0.weight"), ("buffer", "1.running_mean")} <= found
    assert {("gradient", "1.bias"), ("optimizer", "0.bias exp_avg")} <= found
    del wrapped, unbuilt


def names_of(holders: Holders, *models: Any) -> list[str]:
    """Of their first parameters; other tests have left models too."""
    wanted = [next(each.parameters()) for each in models]
    found = holders.tensors(("parameter",))
    return [each.name for one in wanted for each in found if each.tensor is one]


def test_several_models_with_equal_names() -> None:
    """What they are called in the program stands before the names of all tensors."""

    class Trainer:
        def __init__(self) -> None:
            self.policy, self.reference = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

    trainer = Trainer()
    other = torch.nn.ModuleDict({"inner": torch.nn.Linear(2, 2)})
    holders = Holders()
    names = names_of(holders, trainer.policy, trainer.reference, other)
    assert names == ["policy.weight", "reference.weight", "other.inner.weight"]
    assert holders.name_of(trainer.reference) == "reference"
    inside = dict(holders.modules())
    assert inside["policy"] is trainer.policy
    assert inside["other.inner"] is other["inner"]
    optimizer = torch.optim.SGD(trainer.reference.parameters(), lr=0.5)
    by_name = {each.name: each for each in Holders().tensors(("parameter", "optimizer"))}
    assert by_name["reference.weight"].settings == "lr 0.5, weight_decay 0"
    assert by_name["policy.weight"].optimized is False
    del optimizer


def test_local_variables_name_models() -> None:
    student, teacher = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    assert names_of(Holders(), student, teacher) == ["student.weight", "teacher.weight"]


def test_models_in_a_list() -> None:
    """They have no names: they are numbered in their order."""
    ensemble = [torch.nn.Conv1d(2, 2, 1) for _ in range(3)]
    names = names_of(Holders(), *ensemble)
    assert len({*names}) == 3
    assert all(name.startswith("Conv1d") for name in names)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("module.layers.0.weight", "layers.0.weight"),
        ("_orig_mod.module.a.b", "a.b"),
        ("layers._checkpoint_wrapped_module.0.weight", "layers.0.weight"),
        ("head.weight", "head.weight"),
    ],
)
def test_plain_names(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_models_that_are_wrapped_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are searched for again; after it they are kept for a while."""
    monkeypatch.setattr(found_tensors, "_recent", None)
    monkeypatch.setattr(card, "step", None)
    model = torch.nn.Linear(2, 2)
    assert found_tensors.recent_holders() is not found_tensors.recent_holders()
    monkeypatch.setattr(card, "step", 1)
    assert found_tensors.recent_holders() is found_tensors.recent_holders()
    del model


def test_parts_as_megatron_marks_them() -> None:
    """Experts may be divided in other ways."""
    marks: list[dict[str, bool]] = [
        {"tensor_model_parallel": True},
        {"tensor_model_parallel": False},
        {"tensor_model_parallel": False, "allreduce": False},
        {},
    ]
    found = []
    for each in marks:
        parameter = torch.nn.Parameter(torch.zeros(2))
        for name, value in each.items():
            setattr(parameter, name, value)
        found.append(found_tensors.FoundTensor("parameter", "w", parameter).placement)
    assert found == [[("tp", "shard")], [("tp", "replicate")], [], []]


@pytest.mark.parametrize(("mark", "how", "width"), [(True, "shard", 13), (False, "replicate", 17)])
def test_gradients_and_states_are_parts_as_their_parameter(
    mark: bool, how: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Megatron marks parameters alone. With another placement than its parameter's, a gradient would
    be taken for one that is not reduced yet."""
    monkeypatch.setattr(found_tensors, "_recent", None)
    model = torch.nn.Linear(
        width, 1, bias=False
    )  # other models may still live: none has this shape
    model.weight.tensor_model_parallel = mark  # type: ignore[assignment]
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(width)).sum().backward()
    optimizer.step()
    found = {
        (each.kind, re.split("[ .]", each.name)[-1]): each.placement
        for each in found_tensors.Holders().tensors(("parameter", "gradient", "optimizer"))
        if tuple(each.tensor.shape) in ((1, width), ())
    }
    marked = [("tp", how)]
    assert found["parameter", "weight"] == found["gradient", "weight"] == marked
    assert found["optimizer", "exp_avg"] == marked
    assert found["optimizer", "step"] == []  # each rank counts its steps, whatever part it has
