"""Whether a tensor has values that are nan or infinite, in one pass over its memory without a copy."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

INFINITE = float("inf")
_MOST_TENSORS = 50  # of one output
_DEEPEST = 3


def local(tensor: Any) -> Any:
    """The part of it that is here, if it can have such values; else None. A DTensor must not be
    reduced as a whole: that would be a collective."""
    tensor = getattr(tensor, "_local_tensor", tensor)
    torch = sys.modules["torch"]
    if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return None
    if tensor.device.type == "meta" or tensor.layout is not torch.strided:
        return None
    return tensor


def extremes(tensor: Any) -> tuple[Any, Any]:
    """The least and the largest value, which stay on the device. Both are nan if any value is."""
    torch = sys.modules["torch"]
    values = tensor.detach()
    if values.is_complex():
        values = torch.view_as_real(values)
    if values.element_size() == 1:  # torch cannot compare the small floats
        values = values.to(torch.float32)
    low, high = torch.aminmax(values)
    return low, high


def kind_of(low: float, high: float) -> str:
    """`nan`, `inf`, or empty: all are finite."""
    if low != low or high != high:
        return "nan"
    return "inf" if low == -INFINITE or high == INFINITE else ""


def kinds_of(pairs: list[tuple[Any, Any]]) -> list[str]:
    """Of many extremes: one wait for each device, not one for each tensor."""
    torch = sys.modules["torch"]
    alike: dict[Any, list[int]] = {}
    for number, (low, _) in enumerate(pairs):
        alike.setdefault((low.device, low.dtype), []).append(number)
    kinds = [""] * len(pairs)
    for numbers in alike.values():
        scalars = [scalar.reshape(()) for number in numbers for scalar in pairs[number]]
        numerals = torch.stack(scalars).tolist()
        for place, number in enumerate(numbers):
            kinds[number] = kind_of(numerals[2 * place], numerals[2 * place + 1])
    return kinds


def counts(tensor: Any) -> tuple[int, int]:
    """How many are nan, and how many infinite."""
    torch = sys.modules["torch"]
    values = tensor.detach()
    if values.element_size() == 1:
        values = values.to(torch.float32)
    return int(torch.isnan(values).sum()), int(torch.isinf(values).sum())


def tensors_in(value: Any, label: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Those of a module's arguments or results, with where they are in them: 1, ['logits']."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        yield label, value
        return
    if depth == _DEEPEST:
        return
    if isinstance(value, (tuple, list)):
        for number, each in enumerate(value[:_MOST_TENSORS]):
            yield from tensors_in(each, f"{label}[{number}]", depth + 1)
    elif isinstance(value, dict):
        for key in [*value][:_MOST_TENSORS]:
            yield from tensors_in(value[key], f"{label}[{str(key)[:40]!r}]", depth + 1)
