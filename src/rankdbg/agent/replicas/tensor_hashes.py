"""Hashes of tensors, computed on their device in one pass over their memory, without a copy.

The bits are read as whole numbers of 8 bytes. Sums of 1,024 of them, which cost as much as reading
them, are multiplied with weights and summed again: whole numbers wrap, so the result does not depend
on the order in which a device adds. Any changed bit changes the hash. Two values that change places
within 8 KB do not, but in tensors of up to 64 KB, where every number has a weight of its own.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WORDS = 1024  # in a sum
_SMALL = 8192  # numbers
_GOLDEN, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685
_MASK = (1 << 64) - 1
# So many sums at once: the memory that they take beside the model is 8 MB.
_MOST_SUMS = 1 << 20

_weights: dict[Any, Any] = {}  # of each device


def hash_tensors(tensors: list[Any]) -> list[str]:
    """Of each, as 16 letters. One wait for the device at the end, not one for each tensor."""
    if not tensors:
        return []
    torch = sys.modules["torch"]
    with torch.no_grad():
        numbers = fetch(torch, [device_hash(torch, tensor) for tensor in tensors])
    pairs = zip(numbers, tensors, strict=True)
    return [f"{finished(number, kind_of(tensor)):016x}" for number, tensor in pairs]


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


def as_words(torch: Any, raw: Any) -> Any:
    """Bytes, of which there are a multiple of eight, as numbers."""
    aligned = raw.storage_offset() % 8 == 0 and raw.data_ptr() % 8 == 0
    return (raw if aligned else raw.clone()).view(torch.int64)


def device_hash(torch: Any, tensor: Any) -> Any:
    """A number that stays on the device. Parts without numbers add nothing, and cost as much as others:
    they are left out."""
    raw = flat_values(torch, tensor).view(torch.uint8)
    whole = raw.numel() // 8 * 8
    words = as_words(torch, raw[:whole])
    total: Any = 0
    if whole < raw.numel():
        total = _weighted(torch, raw[whole:].to(torch.int64), salt=3)
    if not words.numel():
        return total if whole < raw.numel() else torch.zeros((), dtype=torch.int64)
    if words.numel() <= _SMALL:
        return total + _weighted(torch, words, salt=1)
    blocks = words.numel() // _WORDS
    if blocks * _WORDS < words.numel():
        total = total + _weighted(torch, words[blocks * _WORDS :], salt=2)
    sums = words[: blocks * _WORDS].view(blocks, _WORDS)
    for begin in range(0, blocks, _MOST_SUMS):
        part = sums[begin : begin + _MOST_SUMS].sum(1)
        total = total * _FIRST + _weighted(torch, part, salt=1)
    return total


def _weighted(torch: Any, numbers: Any, salt: int) -> Any:
    weights = weights_of(torch, numbers.device, numbers.numel())
    return ((numbers + salt) * weights[: numbers.numel()]).sum()


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
