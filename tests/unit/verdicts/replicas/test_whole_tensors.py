"""What ranks that split the layers of a model among them have whole, by names and shapes."""

from __future__ import annotations

import pytest

from rankdbg.verdicts.replicas.whole_tensors import WholeTensors
from rankdbg.wire.replica_answers import ReplicaTensor

WIDTH, PART, HEAD = 64, 128, 16
EXPERTS = 8


def whole(**shapes: tuple[int, ...]) -> WholeTensors:
    """`block__norm__weight`: block.norm.weight"""
    names = {name.replace("__", "."): shape for name, shape in shapes.items()}
    return WholeTensors([ReplicaTensor("parameter", n, "", shape) for n, shape in names.items()])


def block(part: int = PART, width: int = WIDTH) -> dict[str, tuple[int, ...]]:
    """A norm, a layer that splits its outputs, and one that splits its inputs."""
    return {
        "0__norm__weight": (width,),
        "0__norm__bias": (width,),
        "0__up__weight": (part, width),
        "0__up__bias": (part,),
        "0__down__weight": (width, part),
        "0__down__bias": (width,),
    }


def test_biases_of_parts() -> None:
    """The one is a part like its weight, the other is added to the sum."""
    found = whole(**block())
    assert found.has("0.norm.weight") and found.has("0.norm.bias")
    assert found.has("0.down.bias") and found.has("0.down.bias exp_avg")
    assert not found.has("0.up.bias") and not found.has("0.up.bias exp_avg_sq")
    assert not found.has("0.up.weight") and not found.has("0.down.weight")
    assert not any(map(found.may_have, ("0.up.bias", "0.down.bias", "0.norm.bias")))


def test_biases_that_may_be_either() -> None:
    """Parts as wide as the model; and a model without a norm."""
    found = whole(**block(part=WIDTH))
    assert not found.has("0.up.bias") and not found.has("0.down.bias")
    assert found.may_have("0.up.bias") and found.may_have("0.down.bias")
    without = whole(up__weight=(PART, WIDTH), up__bias=(PART,))
    assert not without.has("up.bias")
    assert without.may_have("up.bias") and not without.may_have("up.weight")


@pytest.mark.parametrize(
    ("name", "length", "has"),
    [
        ("0.attention.q_norm.weight", HEAD, True),  # over one head: each rank has all of it
        ("0.attention.q_norm.weight", PART, False),  # over all heads of a rank
        ("0.input_layernorm.weight", WIDTH, True),
        ("0.ln_1.bias", WIDTH, True),
    ],
)
def test_norms(name: str, length: int, has: bool) -> None:
    shapes = {
        **block(),
        "0__attention__q_proj__weight": (PART, WIDTH),
        "0__attention__o_proj__weight": (WIDTH, PART),
        name.replace(".", "__"): (length,),
    }
    assert whole(**shapes).has(name) is has


def test_a_norm_by_any_name() -> None:
    """In an nn.Sequential it has a number for a name."""
    found = whole(**{"0__weight": (WIDTH,), "0__bias": (WIDTH,), "1__weight": (PART, WIDTH)})
    assert found.has("0.bias")


def test_routers_and_gates() -> None:
    """What chooses experts is whole; what opens the layer beside it is as split as that."""
    router = whole(
        **block(),
        mlp__gate__weight=(EXPERTS, WIDTH),
        mlp__gate__bias=(EXPERTS,),
        moe__router__weight=(EXPERTS, WIDTH),
    )
    names = ("mlp.gate.weight", "mlp.gate.bias", "moe.router.weight")
    assert all(map(router.has, names))
    gate = whole(
        **block(),
        mlp__gate__weight=(PART, WIDTH),
        mlp__gate__bias=(PART,),
        mlp__up__weight=(PART, WIDTH),
    )
    assert not gate.has("mlp.gate.weight") and not gate.has("mlp.gate.bias")


def test_biases_beside_their_weights() -> None:
    """Of torch's attention: in_proj_bias beside in_proj_weight."""
    found = whole(
        **block(),
        attention__in_proj_weight=(3 * PART, WIDTH),
        attention__in_proj_bias=(3 * PART,),
        attention__out_proj__weight=(WIDTH, PART),
        attention__out_proj__bias=(WIDTH,),
    )
    assert not found.has("attention.in_proj_bias")
    assert found.has("attention.out_proj.bias")
