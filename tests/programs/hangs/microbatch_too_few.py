"""A pipeline of three stages, with four microbatches and a barrier in each step. In the last step stage
1 passes on one microbatch too few: stage 2 waits for it, and all others for stage 2 in the barrier.

With `late` it passes on all, is slow with each last one, and there is no last step."""

import itertools
import sys
import time

import torch
import torch.distributed as dist
import training

training.begin()
MICROBATCHES = 4
LATE, LAST = "late" in sys.argv, 3
for step in itertools.count():
    for batch in range(MICROBATCHES):
        if training.RANK > 0:
            dist.recv(torch.empty(10), training.RANK - 1)
        is_last = training.RANK == 1 and batch == MICROBATCHES - 1
        if LATE and is_last:
            time.sleep(0.3)
        if training.RANK < 2 and (LATE or not is_last or step != LAST):
            dist.send(torch.ones(10), training.RANK + 1)
    dist.barrier()
