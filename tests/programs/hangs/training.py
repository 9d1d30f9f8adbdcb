"""What most jobs here have in common: ranks that train together on gloo, and begin well.

Each rank prints one line; what its program is about happens right after it.
"""

import os

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def begin():
    dist.init_process_group("gloo")
    for _ in range(3):
        step()
    print(f"rank {RANK}: three good steps", flush=True)


def step():
    gradients = torch.ones(1000)
    dist.all_reduce(gradients)
