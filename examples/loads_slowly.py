"""One rank reads its data slowly, and so all are slow: they wait for it at every step.

rankdbg run --job slow -- torchrun --nproc-per-node 4 examples/loads_slowly.py &
rankdbg profile --job slow
"""

import gzip

import torch
import torch.distributed as dist

STORED = {True: gzip.compress(bytes(4_000_000)), False: bytes(4_000_000)}


def load_batch():
    """The shard of rank 3 was stored compressed."""
    stored = STORED[dist.get_rank() == 3]
    if stored[:2] == b"\x1f\x8b":
        stored = gzip.decompress(stored)
    return torch.frombuffer(bytearray(stored), dtype=torch.uint8)


def train_step(weights):
    batch = load_batch()
    gradients = weights * batch[: len(weights)].float().mean()
    dist.all_reduce(gradients)
    return weights - gradients


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        print("next: rankdbg profile", flush=True)
    weights = torch.ones(1000)
    while True:
        weights = train_step(weights)


if __name__ == "__main__":
    main()
