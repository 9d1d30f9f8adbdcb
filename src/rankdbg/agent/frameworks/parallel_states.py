"""Coordinates from the frameworks that keep their process groups in variables of a module:
Megatron, DeepSpeed, vLLM, SGLang.

The variables are read, and none of the functions is called: some make a group where there is
none, which all ranks have to do together.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MEGATRON = {
    "pp": ("_MPU_PIPELINE_MODEL_PARALLEL_RANK", "_PIPELINE_MODEL_PARALLEL_GROUP"),
    "dp": ("_MPU_DATA_PARALLEL_RANK", "_DATA_PARALLEL_GROUP"),
    "cp": ("_CONTEXT_PARALLEL_GROUP",),
    "ep": ("_MPU_EXPERT_MODEL_PARALLEL_RANK", "_EXPERT_MODEL_PARALLEL_GROUP"),
    "tp": ("_MPU_TENSOR_MODEL_PARALLEL_RANK", "_TENSOR_MODEL_PARALLEL_GROUP"),
}
_DEEPSPEED = {
    "dp": ("_DATA_PARALLEL_GROUP",),
    "ep": ("_EXPERT_PARALLEL_GROUP",),
    "tp": ("_MPU_TENSOR_MODEL_PARALLEL_RANK", "_TENSOR_MODEL_PARALLEL_GROUP"),
}
_ENGINE = {"pp": ("_PP",), "dp": ("_DP",), "ep": ("_EP", "_MOE_EP"), "tp": ("_TP",)}

# The module of a framework -> the dimensions, each with the variables that may have it: a number,
# or the group in which this rank has its place.
STATES: dict[str, dict[str, tuple[str, ...]]] = {
    "megatron.core.parallel_state": _MEGATRON,
    "deepspeed.utils.groups": _DEEPSPEED,
    "deepspeed.runtime.sequence_parallel.parallel_state_sp": {"sp": ("_SEQUENCE_PARALLEL_GROUP",)},
    "vllm.distributed.parallel_state": _ENGINE,
    "sglang.srt.distributed.parallel_state": _ENGINE,
}


def read() -> dict[str, Any]:
    found: dict[str, int] = {}
    for name, dimensions in STATES.items():
        module = sys.modules.get(name)
        if module is not None:
            found = {**_in_module(module, dimensions), **_in_grid(module), **found}
    return {"coordinates": found} if found else {}


def _in_module(module: Any, dimensions: dict[str, tuple[str, ...]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for dimension, variables in dimensions.items():
        places = (_place(getattr(module, variable, None)) for variable in variables)
        place = next((place for place in places if place is not None), None)
        if place is not None:
            found[dimension] = place
    return found


def _place(value: Any) -> int | None:
    if isinstance(value, dict):  # DeepSpeed: the groups of experts by their names
        value = list(value.values())
    if isinstance(value, list):  # Megatron: a rank may be in several pipelines
        value = value[0] if value else None
    if value is None or isinstance(value, int):
        return value
    # A GroupCoordinator of vLLM and SGLang, or a group of torch.
    place = getattr(value, "rank_in_group", None)
    place = value.rank() if place is None else place
    return place if type(place) is int and place >= 0 else None


def _in_grid(module: Any) -> dict[str, int]:
    """DeepSpeed's pipelines are in a grid."""
    grid = getattr(module, "mpu", None)
    places = {"pp": getattr(grid, "stage_id", None), "dp": getattr(grid, "data_parallel_id", None)}
    return {name: place for name, place in places.items() if type(place) is int}
