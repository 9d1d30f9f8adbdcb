"""Kernels that ran on the GPU of a rank when a debugger looked at it, and again some seconds later."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# By their names: NCCL's and RCCL's, and those that write into the memory of other GPUs.
_COLLECTIVE = re.compile(
    r"nccl|rccl|nvshmem|deep_?ep|cross_device|multimem|barrier"
    r"|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Kernel:
    name: str
    text: str  # with its sizes, and the line in which it is if that is known
    ended: bool | None = None  # before the second look; None if there was none

    @property
    def sentence(self) -> str:
        if self.ended is None:
            return f"{self.text} runs"
        return f"{self.text} {'had ended some seconds later' if self.ended else 'does not end'}"

    @property
    def is_collective(self) -> bool:
        return bool(_COLLECTIVE.search(self.name))


def one_of_the_program(kernels: Iterable[Kernel]) -> Kernel | None:
    """That waits for no other GPU; rather one that has not ended."""
    own = [kernel for kernel in kernels if not kernel.is_collective]
    return min(own, key=lambda kernel: bool(kernel.ended), default=None)
