"""Hashes of tensors, computed on their device in one pass over their memory, without a copy.

The bits are read as whole numbers of 8 bytes. Of a large tensor, sums of 1,024 of them are taken, which
cost as much as reading them. These, or the numbers of a small tensor, are multiplied with weights and
summed: whole numbers wrap, so the result does not depend on the order in which a device adds. Any
changed bit changes the hash. Two values that change places within 8 KB do not, but in tensors of up to
64 KB, where every number has a weight of its own.

The numbers of many tensors are weighted at once: on a GPU an operation takes longer to start than to
run on a small tensor.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_WORDS = 1024  # in a sum
_SMALL = 8192  # numbers
_GOLDEN, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685
_MASK = (1 << 64) - 1
# So many numbers at once: what they take beside the model, five times, is 40 MB.
_MOST_NUMBERS = 1 << 20
_FEW = 8  # parts, which cost less one by one

_weights: dict[Any, Any] = {}  # of each device


def hash_tensors(tensors: list[Any]) -> list[str]:
    """Of each, as 16 letters. One wait for the device at the end, not one for each tensor."""
    if not tensors:
        return []
    torch = sys.modules["torch"]
    totals = [0] * len(tensors)
    by_device: dict[Any, _DeviceSums] = {}
    with torch.no_grad():
        for number, tensor in enumerate(tensors):
            for part in _parts(torch, tensor):
                sums = by_device.get(part.device)
                if sums is None:
                    sums = by_device[part.device] = _DeviceSums(torch)
                sums.add(number, part)
        for sums in by_device.values():
            for number, weighted in sums.fetch():
                totals[number] = totals[number] * _FIRST + weighted
    pairs = zip(totals, tensors, strict=True)
    return [f"{finished(total, kind_of(tensor)):016x}" for total, tensor in pairs]


class _DeviceSums:
    """The weighted sums of parts of tensors, computed together."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._owners: list[int] = []  # the tensors of all parts
        self._sums: list[Any] = []
        self._waiting: list[Any] = []
        self._room = _MOST_NUMBERS

    def add(self, owner: int, part: Any) -> None:
        if self._room < part.numel():
            self._weigh()
        self._owners.append(owner)
        self._waiting.append(part)
        self._room -= part.numel()

    def fetch(self) -> Iterator[tuple[int, int]]:
        """The tensor of each part, and its sum."""
        self._weigh()
        return zip(self._owners, self._torch.cat(self._sums).tolist(), strict=True)

    def _weigh(self) -> None:
        if self._waiting:
            self._sums.append(_sums_of(self._torch, self._waiting))
        self._waiting, self._room = [], _MOST_NUMBERS


def _sums_of(torch: Any, parts: list[Any]) -> Any:
    """With one operation of a kind for all parts."""
    if len(parts) <= _FEW:
        return torch.stack([_weighted(torch, part) for part in parts])
    device, numbers = parts[0].device, torch.cat(parts)
    counts = torch.tensor([part.numel() for part in parts]).to(device, non_blocking=True)
    which = torch.arange(len(parts), device=device)
    which = torch.repeat_interleave(which, counts, output_size=numbers.numel())
    places = torch.arange(numbers.numel(), device=device) - (counts.cumsum(0) - counts)[which]
    weights = weights_of(torch, device, max(part.numel() for part in parts))
    sums = torch.zeros(len(parts), dtype=torch.int64, device=device)
    return sums.index_add_(0, which, (numbers + 1) * weights[places])


def fetch(torch: Any, numbers: list[Any]) -> list[int]:
    """Numbers that are on devices: with one wait for each device."""
    by_device: dict[Any, list[int]] = {}
    for index, each in enumerate(numbers):
        by_device.setdefault(each.device, []).append(index)
    found = [0] * len(numbers)
    for places in by_device.values():
        values = torch.stack([numbers[index] for index in places]).tolist()
        for index, value in zip(places, values, strict=True):
            found[index] = value
    return found


def kind_of(tensor: Any) -> str:
    return f"{tensor.dtype} {[*tensor.shape]}"


def finished(number: int, kind: str) -> int:
    """With what the bits alone do not tell."""
    return (number * 1099511628211 + hash_text(kind)) & _MASK


def hash_text(text: str) -> int:
    from binascii import crc32

    return crc32(text.encode())


def flat_values(torch: Any, tensor: Any) -> Any:
    """In the order of their indices; complex ones as pairs."""
    flat = tensor.detach().contiguous().reshape(-1)
    return torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat


def as_words(torch: Any, flat: Any) -> Any:
    """Values that take a multiple of eight bytes, as numbers."""
    aligned = flat.storage_offset() * flat.element_size() % 8 == 0 and flat.data_ptr() % 8 == 0
    return (flat if aligned else flat.clone()).view(torch.int64)


def device_hash(torch: Any, tensor: Any) -> Any:
    """A number that stays on the device."""
    total = None
    for part in _parts(torch, tensor):
        weighted = _weighted(torch, part)
        total = weighted if total is None else total * _FIRST + weighted
    return torch.zeros((), dtype=torch.int64) if total is None else total


def _parts(torch: Any, tensor: Any) -> Iterator[Any]:
    """The numbers that are weighted: of a large tensor sums, and what is too short for one. Parts
    without numbers would cost as much as others: they are left out."""
    flat = flat_values(torch, tensor)
    size = flat.numel() * flat.element_size()
    if size % 8:
        flat = flat.view(torch.uint8)
    words = as_words(torch, flat[: size // 8 * 8] if size % 8 else flat)
    blocks = words.numel() // _WORDS if words.numel() > _SMALL else 0
    for begin in range(0, blocks, _MOST_NUMBERS):
        end = min(begin + _MOST_NUMBERS, blocks)
        yield words[begin * _WORDS : end * _WORDS].view(-1, _WORDS).sum(1)
    if blocks * _WORDS < words.numel():
        rest = words[blocks * _WORDS :]
        # Of a tensor that had to be put in order, the whole copy would live until this is weighted.
        yield rest.clone() if blocks else rest
    if size % 8:
        yield flat[size // 8 * 8 :].to(torch.int64)


def _weighted(torch: Any, numbers: Any) -> Any:
    weights = weights_of(torch, numbers.device, numbers.numel())
    return ((numbers + 1) * weights[: numbers.numel()]).sum()


def weights_of(torch: Any, device: Any, count: int) -> Any:
    """Odd numbers, of which each bit depends on the place."""
    known = _weights.get(device)
    if known is None or known.numel() < count:
        mixed = torch.arange(max(count, _SMALL), dtype=torch.int64, device=device) * _GOLDEN
        mixed = (mixed ^ (mixed >> 30)) * _FIRST
        mixed = (mixed ^ (mixed >> 27)) * _SECOND
        known = _weights[device] = (mixed ^ (mixed >> 31)) | 1
    return known


# --- figures, for those that differ -------------------------------------------------------------


def figures(tensor: Any) -> dict[str, Any]:
    """norm, min, max, and how many are nan or infinite; of the finite ones."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        values = tensor.detach()
        if values.is_complex():
            values = values.abs()
        if values.is_floating_point():
            values = values.to(torch.float32) if values.element_size() < 4 else values
            nan, inf = int(torch.isnan(values).sum()), int(torch.isinf(values).sum())
            values = values[torch.isfinite(values)] if nan or inf else values
        else:
            nan = inf = 0
        found: dict[str, Any] = {"nan": nan, "inf": inf, "norm": None, "min": None, "max": None}
        if values.numel():
            found["norm"] = float(torch.linalg.vector_norm(values.to(torch.float64)))
            found["min"], found["max"] = float(values.min()), float(values.max())
        return found
