"""The description of a process group -> the dimension of parallelism that it belongs to.

The agent takes the coordinates of a rank from its groups, and reports name groups by them: both
use the same names.
"""

from __future__ import annotations

# torch describes the groups of a DeviceMesh by its dimensions: mesh_dp, mesh_tp.
_OF_MESH = "mesh_"

# Descriptions of Megatron, and dimensions of DeepSpeed's meshes -> the short names.
_SHORT = {
    "TENSOR_MODEL_PARALLEL_GROUP": "tp",
    "PIPELINE_MODEL_PARALLEL_GROUP": "pp",
    "DATA_PARALLEL_GROUP": "dp",
    "CONTEXT_PARALLEL_GROUP": "cp",
    "EXPERT_MODEL_PARALLEL_GROUP": "ep",
    "mesh_data_parallel": "dp",
    "mesh_tensor_parallel": "tp",
    "mesh_sequence_parallel": "sp",
}


def dimension_of(description: str) -> str:
    """`dp` for `mesh_dp`; `` for a group of another kind, or of a mesh without names."""
    if description in _SHORT:
        return _SHORT[description]
    name = description.removeprefix(_OF_MESH)
    unnamed = name == "default" or name.removeprefix("dim_").isdigit()
    return "" if name == description or unnamed else name
