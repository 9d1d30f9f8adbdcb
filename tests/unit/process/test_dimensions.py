"""dimensions: the description of a process group -> the dimension that it belongs to."""

from __future__ import annotations

import pytest

from rankdbg.process.dimensions import dimension_of


@pytest.mark.parametrize(
    ("description", "dimension"),
    [
        ("mesh_dp", "dp"),
        ("mesh_dp_shard_cp", "dp_shard_cp"),
        ("mesh_data_parallel", "dp"),
        ("TENSOR_MODEL_PARALLEL_GROUP", "tp"),
        ("mesh_dim_0", ""),
        ("mesh_default", ""),
        ("default_pg", ""),
        ("", ""),
    ],
)
def test_dimension(description: str, dimension: str) -> None:
    """The name of the mesh's dimension, short where a framework has a long one."""
    assert dimension_of(description) == dimension
