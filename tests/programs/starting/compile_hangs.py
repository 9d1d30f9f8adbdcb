"""Rank 1 compiles with a compiler that never ends; rank 0 does not compile, and waits for it."""

import os

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])


@torch.compile
def scaled(values):
    return torch.relu(values) * 3


dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
print(f"rank {RANK}: compiles", flush=True)
if RANK == 1:
    scaled(torch.ones(1000))
dist.all_reduce(torch.ones(1))
