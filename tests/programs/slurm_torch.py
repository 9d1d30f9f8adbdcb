"""Under srun: ranks over gloo that reduce a number again and again.

slurm_torch.py FILE      through which they find each other
"""

import os
import sys
import time

import torch
import torch.distributed as dist


def train_step():
    loss = torch.full((1,), float(dist.get_rank()))
    dist.all_reduce(loss)
    mean = loss.item() / dist.get_world_size()
    time.sleep(0.2)
    return mean


def main():
    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    dist.init_process_group("gloo", f"file://{sys.argv[1]}", rank=rank, world_size=world)
    while True:
        train_step()


main()
