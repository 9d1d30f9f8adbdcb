"""Rank 1 looks for the master on a port on which no process listens."""

import os

import torch.distributed as dist

RANK = int(os.environ["RANK"])
if RANK == 1:
    os.environ["MASTER_PORT"] = os.environ["WRONG_PORT"]
print(f"rank {RANK}: joins\n", end="", flush=True)
dist.init_process_group("gloo")
