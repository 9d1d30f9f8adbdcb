"""What `rankdbg diverge` takes to hash the tensors of a rank. The peer reads the same memory with torch:
torch.sum over each tensor, as whole numbers of 8 bytes.

On a GPU also beside the time that copying takes there, counting what is read and written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from _measuring import begin, milliseconds, table, take_turns

from rankdbg.agent.replicas.tensor_hashes import hash_tensors

ROUNDS = 9


def transformer(layers: int, width: int, kind: Any) -> list[tuple[int, Any]]:
    """The sizes of its tensors: matrices, biases and norms."""
    square = width * width
    layer = [3 * square, 3 * width, square, width, 4 * square, 4 * width, 4 * square, *[width] * 5]
    return [(size, kind) for _ in range(layers) for size in layer]


MODELS = {
    "one tensor": [(1 << 27, torch.float64)],
    "1 GB in layers": transformer(24, 936, torch.float32),
    "100 MB in 200": [(125_000, torch.float32)] * 200,
}
ON_GPU = {"13 GB in layers": transformer(32, 4096, torch.bfloat16)}


def read(tensors: list[Any]) -> Callable[[], object]:
    words = [each.view(torch.int64) for each in tensors]
    return lambda: [each.sum() for each in words][-1].item()


def bandwidth(device: str) -> float:
    """Bytes a second."""
    here = torch.empty(1 << 30, dtype=torch.uint8, device=device)
    there = torch.empty_like(here)

    def copy() -> None:
        there.copy_(here)
        torch.cuda.synchronize()

    (taken,) = take_turns(ROUNDS, copy)
    return 2 * here.numel() / min(taken)


def measure(device: str, models: dict[str, list[tuple[int, Any]]]) -> None:
    fastest = bandwidth(device) if device == "cuda" else None
    # Of a CPU the processor time: what a busy machine changes least.
    clock = time.process_time if device == "cpu" else time.perf_counter
    rows = [[f"best on {device}", "tensors", "hashes", "torch.sum", "ratio", "at bandwidth"]]
    for name, sizes in models.items():
        tensors = [torch.randn(size, device=device).to(kind) for size, kind in sizes]

        def hash_all(tensors: list[Any] = tensors) -> None:
            hash_tensors(tensors)

        ours, peers = map(min, take_turns(ROUNDS, hash_all, read(tensors), clock=clock))
        size = sum(each.numel() * each.element_size() for each in tensors)
        bound = milliseconds(size / fastest) if fastest else ""
        figures = milliseconds(ours), milliseconds(peers), f"{ours / peers:.2f}", bound
        rows.append([name, str(len(tensors)), *figures])
    table(rows)


def main() -> None:
    begin(f"hashes of tensors, {ROUNDS} rounds in turns", "1 GB in 1.5 times of reading it")
    torch.set_num_threads(1)
    measure("cpu", MODELS)
    if torch.cuda.is_available():
        measure("cuda", MODELS | ON_GPU)


if __name__ == "__main__":
    main()
