"""Two data-parallel groups and a barrier of all ranks in each step. In the last one rank 3 leaves out
the all_reduce of its group: rank 1 waits for it there, and it waits for rank 1 in the barrier.

With `late` it leaves nothing out, is slow in each step, and there is no last one."""

import itertools
import sys
import time

import torch
import torch.distributed as dist
import training

training.begin()
groups = [dist.new_group(members) for members in ([0, 2], [1, 3])]
LATE, LAST = "late" in sys.argv, 3
for step in itertools.count():
    if LATE and training.RANK == 3:
        time.sleep(0.3)
    if LATE or training.RANK != 3 or step != LAST:
        dist.all_reduce(torch.ones(100), group=groups[training.RANK % 2])
    dist.barrier()
