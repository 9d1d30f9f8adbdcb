"""Rank 3 leaves an all_reduce out, behind an `if`, and waits in the next collective."""

import torch.distributed as dist
import training

training.begin()
evaluation = dist.new_group()
has_gradients = training.RANK != 3
if has_gradients:
    training.step()
dist.barrier(group=evaluation)
