"""All but rank 0 have a group of their own. Rank 3 leaves its all_reduce out and waits for all."""

import torch
import torch.distributed as dist
import training

training.begin()
workers = dist.new_group(range(1, training.WORLD))
has_work = training.RANK not in (0, 3)
if has_work:
    dist.all_reduce(torch.ones(10), group=workers)
dist.barrier()
