"""A tensor in blocks: their hashes, and the values of some.

Two ranks whose tensors differ send hashes of blocks of 8 KB, and then the values of the blocks that
differ: what is sent has a limit, whatever the size of the tensor.
"""

from __future__ import annotations

import sys
from binascii import b2a_base64

from rankdbg.agent.replicas import tensor_hashes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BLOCK = 8192  # bytes
# A larger tensor has larger blocks: 4,096 hashes are 44 KB of text.
MOST_BLOCKS = 4096
# Bytes of a tensor whose values are sent; one block in any case.
MOST_VALUES = 256 * 1024
_AT_ONCE = 8 << 20  # bytes: the memory that hashing takes beside the tensor


def size_of(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def block_size(tensor: Any) -> int:
    block, size = BLOCK, size_of(tensor)
    while size > block * MOST_BLOCKS:
        block *= 2
    return block


def block_hashes(tensor: Any) -> str:
    """8 bytes for each block, one behind the other, as base64."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        raw = tensor_hashes.flat_values(torch, tensor).view(torch.uint8)
        block = block_size(tensor)
        whole = raw.numel() // block * block
        step = max(1, _AT_ONCE // block) * block
        sums = [
            _sums(torch, raw[begin : min(begin + step, whole)], block)
            for begin in range(0, whole, step)
        ]
        if whole < raw.numel():
            padded = torch.zeros(block, dtype=torch.uint8, device=raw.device)
            padded[: raw.numel() - whole] = raw[whole:]
            sums.append(_sums(torch, padded, block))
        return _text(torch, torch.cat(sums)) if sums else ""


def _sums(torch: Any, raw: Any, block: int) -> Any:
    words = tensor_hashes.as_words(torch, raw).view(-1, block // 8)
    return (
        (words + 1) * tensor_hashes.weights_of(torch, raw.device, block // 8)[: block // 8]
    ).sum(1)


def block_values(tensor: Any, numbers: tuple[int, ...]) -> tuple[str, str]:
    """The letter of an array's type, and base64 of what is in it: floats of up to 4 bytes as such of
    4, whole numbers as such of 8."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        flat = tensor_hashes.flat_values(torch, tensor)
        length = block_size(tensor) // flat.element_size()
        parts = [flat[each * length : (each + 1) * length] for each in numbers if each >= 0]
        if not parts:
            return "q", ""
        values = torch.cat(parts)[: max(length, MOST_VALUES // flat.element_size())].cpu()
        if not values.is_floating_point():
            return "q", _text(torch, values.to(torch.int64))
        if values.element_size() == 8:
            return "d", _text(torch, values)
        return "f", _text(torch, values.to(torch.float32))


def _text(torch: Any, values: Any) -> str:
    """Without numpy, which need not be there."""
    return b2a_base64(bytes(values.cpu().view(torch.uint8).tolist()), newline=False).decode()
