"""The tensors among what a module or an operator is given or returns, and their hashes."""

from __future__ import annotations

import sys

from rankdbg.agent.replicas import tensor_hashes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    # A number that is still on its device, and what the bits alone do not tell.
    Hash = tuple[Any, str]

_DEEPEST = 4  # lists in lists


def tensors_in(value: Any, depth: int = 0) -> Iterator[Any]:
    """The parts of them that are here."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        local = getattr(value, "_local_tensor", value)
        if local.device.type != "meta" and local.layout is torch.strided:
            yield local
    else:
        for each in _inside(value, depth):
            yield from tensors_in(each, depth + 1)


def hashes_of(values: Any) -> list[Hash]:
    torch = sys.modules["torch"]
    with torch.no_grad():
        return [
            (tensor_hashes.device_hash(torch, each), tensor_hashes.kind_of(each))
            for each in tensors_in(values)
        ]


def part_of(value: Any, depth: int = 0) -> str:
    """Which part of DTensors this rank has, `0=1`: the place of this rank along the dimensions of the
    mesh that divide them. Ranks with other parts rightly have other values."""
    placements, mesh = getattr(value, "placements", None), getattr(value, "device_mesh", None)
    if placements is not None and mesh is not None:
        place = mesh.get_coordinate() or []
        pairs = zip(placements, place, strict=False)
        divided = [
            f"{number}={at}" for number, (how, at) in enumerate(pairs) if not how.is_replicate()
        ]
        return ",".join(divided)
    return ";".join(filter(None, (part_of(each, depth + 1) for each in _inside(value, depth))))


def _inside(value: Any, depth: int) -> list[Any]:
    if depth >= _DEEPEST:
        return []
    if isinstance(value, (list, tuple)):
        return [*value]
    return [*value.values()] if isinstance(value, dict) else []


def generator_state() -> bytes:
    """What draws random numbers changes it."""
    torch, cuda = sys.modules["torch"], sys.modules.get("torch.cuda")
    states = [torch.get_rng_state()]
    if cuda is not None and cuda.is_initialized():
        states.append(cuda.get_rng_state())
    return b"".join(bytes(state.tolist()) for state in states)


class Fetched:
    """All hashes of a trace, brought from their devices at once."""

    def __init__(self, hashes: list[Hash]) -> None:
        torch = sys.modules["torch"]
        with torch.no_grad():
            numbers = tensor_hashes.fetch(torch, [number for number, _ in hashes])
        self._known = {
            id(each): tensor_hashes.finished(number, each[1])
            for number, each in zip(numbers, hashes, strict=True)
        }

    def joined(self, hashes: list[Hash]) -> str:
        """Of several tensors one hash; empty without any."""
        total = 0
        for each in hashes:
            total = (total * 1099511628211 + self._known[id(each)]) & ((1 << 64) - 1)
        return f"{total:016x}" if hashes else ""
