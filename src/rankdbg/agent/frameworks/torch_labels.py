"""Labels from torch: the rank, and its coordinates in the program's DeviceMesh.

A mesh has a group for each of its dimensions, and the place of this rank in that group is its
coordinate. torch keeps no list of meshes, but a list of groups, each with the name of its
dimension.
"""

from __future__ import annotations

import sys

from rankdbg.agent.frameworks.instances import Instances
from rankdbg.process.dimensions import dimension_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODULE = "torch.distributed.distributed_c10d"


def read() -> dict[str, Any]:
    c10d: Any = sys.modules[MODULE]
    if not c10d.is_initialized():
        return {}
    labels = {"rank": c10d.get_rank(), "world": c10d.get_world_size(), "source": "torch"}
    coordinates = _coordinates(c10d)
    return {**labels, "coordinates": coordinates} if coordinates else labels


def _coordinates(c10d: Any) -> dict[str, int]:
    """Of dimensions with the same name in several meshes, those of the first mesh."""
    found: dict[str, int] = {}
    is_split = False
    for group in list(c10d._world.pg_names):
        dimension = _dimension(group)
        if dimension and dimension not in found and group.rank() >= 0:
            found[dimension] = group.rank()
            is_split = is_split or group.size() > 1
    return found if is_split else {**_of_whole_meshes(), **found}


def _dimension(group: Any) -> str:
    description = str(getattr(group, "group_desc", ""))
    return dimension_of(description) if description.startswith("mesh_") else ""


def _of_whole_meshes() -> dict[str, int]:
    """A dimension that contains all ranks uses the default group, which does not have its name."""
    module: Any = sys.modules.get("torch.distributed.device_mesh")
    kind = getattr(module, "DeviceMesh", None)
    found: dict[str, int] = {}
    for coordinates in _meshes.described(kind) if kind is not None else ():
        found = {**coordinates, **found}
    return found


def _coordinates_in(mesh: Any) -> dict[str, int]:
    try:
        names, places = mesh.mesh_dim_names, mesh.get_coordinate()
    except Exception:  # it is being made in another thread
        return {}
    return {str(name): int(place) for name, place in zip(names or (), places or (), strict=False)}


_meshes = Instances(_coordinates_in)
