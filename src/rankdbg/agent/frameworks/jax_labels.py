"""Labels from JAX: the index of this process, and its coordinates in the program's mesh.

jax.process_index() would start JAX's backend, and with it wait for all other processes. So only
what is there already is read.
"""

from __future__ import annotations

import sys

from rankdbg.agent.frameworks.instances import Instances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def read() -> dict[str, Any]:
    index, count = _index_and_count()
    if count < 2:
        return {}
    labels: dict[str, Any] = {"rank": index, "world": count, "source": "jax"}
    coordinates = _coordinates()
    return {**labels, "coordinates": coordinates} if coordinates else labels


def _index_and_count() -> tuple[int, int]:
    """The index in the backend, once there is one; before, as jax.distributed.initialize() was
    told."""
    state: Any = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if getattr(state, "client", None) is None:
        return 0, 1
    backend = _backend()
    index = state.process_id if backend is None else backend.process_index()
    return int(index), int(state.num_processes or 1)


def _backend() -> Any:
    return getattr(sys.modules.get("jax._src.xla_bridge"), "_default_backend", None)


def _coordinates() -> dict[str, int]:
    kind = getattr(sys.modules.get("jax._src.mesh"), "Mesh", None)
    if kind is None or _backend() is None:  # without a backend there are no devices
        return {}
    found: dict[str, int] = {}
    for _, coordinates in sorted(_meshes.described(kind), key=_largest_first):
        found = {**coordinates, **found}
    return found


def _largest_first(described: tuple[int, dict[str, int]]) -> tuple[int, list[str]]:
    size, coordinates = described
    return -size, sorted(coordinates)


def _coordinates_in(mesh: Any) -> tuple[int, dict[str, int]]:
    """The number of devices, and the axes along which all devices of this process have the same
    place."""
    try:
        here = _backend().process_index()
        shape = mesh.devices.shape
        devices = [n for n, d in enumerate(mesh.devices.flat) if d.process_index == here]
        names = mesh.axis_names
    except Exception:  # the empty mesh, or a mesh of another version of JAX
        return 0, {}
    found: dict[str, int] = {}
    stride = 1
    for name, extent in reversed(list(zip(names, shape, strict=False))):
        places = {number // stride % extent for number in devices}
        if len(places) == 1 and isinstance(name, str) and not name.startswith("_"):
            found[name] = places.pop()
        stride *= extent
    return stride, dict(reversed(found.items()))


_meshes = Instances(_coordinates_in)
