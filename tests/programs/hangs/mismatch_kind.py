"""Rank 1 waits for a broadcast where the others reduce."""

import torch
import torch.distributed as dist
import training

training.begin()
if training.RANK == 1:
    dist.broadcast(torch.ones(1000), src=0)
else:
    dist.all_reduce(torch.ones(1000))
training.step()
