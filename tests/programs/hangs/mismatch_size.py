"""Rank 3 has had fewer batches, and reduces fewer losses than the others."""

import torch
import torch.distributed as dist
import training

training.begin()
losses = torch.ones(2 if training.RANK == 3 else 4)
dist.all_reduce(losses)
training.step()
