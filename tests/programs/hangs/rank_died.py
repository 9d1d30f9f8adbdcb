"""Rank 1 is killed, as when memory is short; the others wait for its results."""

import os
import signal

import torch.distributed as dist
import training

training.begin()
if training.RANK == 1:
    os.kill(os.getpid(), signal.SIGKILL)
store = dist.distributed_c10d._get_default_store()
store.set(f"results of {training.RANK}", "0.93")
for rank in range(training.WORLD):
    store.get(f"results of {rank}")
