"""Ranks 1 to 3 train in a group of their own, rank 0 evaluates, and all meet in a barrier at the end.
In one step rank 2 enters that barrier, and not the all_reduce of its group: ranks 1 and 3 wait for it
there, and it waits for them.

With `late` it enters no other call, is slow in each step, and there is no end."""

import itertools
import sys
import time

import torch
import torch.distributed as dist
import training

import rankdbg

training.begin()
group = dist.new_group([1, 2, 3])
LATE, LAST = "late" in sys.argv, 8
for step in itertools.count():
    if training.RANK == 0:
        break
    rankdbg.progress(step)
    if LATE and training.RANK == 2:
        time.sleep(0.3)
    if not LATE and training.RANK == 2 and step == LAST:
        break
    dist.all_reduce(torch.ones(100), group=group)
dist.barrier()
