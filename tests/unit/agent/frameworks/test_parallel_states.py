"""parallel_states: coordinates from the variables of Megatron, DeepSpeed, vLLM and SGLang.

The modules are stand-ins with the names of the real ones: megatron-core 0.16 takes 20 s to import.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rankdbg.agent.frameworks import parallel_states


class Group:
    def __init__(self, place: int) -> None:
        self._place = place

    def rank(self) -> int:
        return self._place


@pytest.fixture
def loaded() -> Iterator[Any]:
    names: list[str] = []

    def load(name: str, **variables: object) -> None:
        module = ModuleType(name)
        vars(module).update(variables)
        sys.modules[name] = module
        names.append(name)

    yield load
    for name in names:
        del sys.modules[name]


def read() -> dict[str, int]:
    return parallel_states.read().get("coordinates", {})


def test_megatron(loaded: Any) -> None:
    """The place in each group is the coordinate; a rank that was set directly comes first."""
    loaded(
        "megatron.core.parallel_state",
        _PIPELINE_MODEL_PARALLEL_GROUP=[Group(1), Group(0)],
        _DATA_PARALLEL_GROUP=Group(2),
        _CONTEXT_PARALLEL_GROUP=Group(0),
        _TENSOR_MODEL_PARALLEL_GROUP=Group(0),
        _MPU_TENSOR_MODEL_PARALLEL_RANK=3,
    )
    assert read() == {"pp": 1, "dp": 2, "cp": 0, "tp": 3}


def test_megatron_before_it_is_initialised(loaded: Any) -> None:
    """Groups that are not made yet give nothing."""
    loaded("megatron.core.parallel_state", _DATA_PARALLEL_GROUP=None)
    assert read() == {}


def test_deepspeed(loaded: Any) -> None:
    """Groups of experts are kept by name; the grid of a pipeline has its own numbers."""
    loaded(
        "deepspeed.utils.groups",
        _EXPERT_PARALLEL_GROUP={"ep_size_2": Group(1)},
        _TENSOR_MODEL_PARALLEL_GROUP=None,
        mpu=SimpleNamespace(stage_id=1, data_parallel_id=0),
    )
    loaded(
        "deepspeed.runtime.sequence_parallel.parallel_state_sp", _SEQUENCE_PARALLEL_GROUP=Group(4)
    )
    assert read() == {"sp": 4, "ep": 1, "pp": 1, "dp": 0}


def test_vllm(loaded: Any) -> None:
    """A coordinator of groups says its place without a call."""
    loaded("vllm.distributed.parallel_state", _TP=SimpleNamespace(rank_in_group=1), _PP=None)
    assert read() == {"tp": 1}


def test_group_of_other_ranks(loaded: Any) -> None:
    """torch says -1 for a group that this rank is not in."""
    loaded("megatron.core.parallel_state", _DATA_PARALLEL_GROUP=Group(-1))
    assert read() == {}
