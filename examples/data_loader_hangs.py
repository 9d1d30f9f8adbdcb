"""One rank waits for its data loader, the others wait for it in all_reduce.

    pip install torch
    rankdbg run --mesh dp=2,tp=2 -- torchrun --nproc-per-node 4 examples/data_loader_hangs.py

Then, from another terminal:

    $ rankdbg ps
    $ rankdbg stacks
    $ rankdbg ask all 'loss, step' --frame train_step
"""

import os
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Shards(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        if index == 64 and os.environ["RANK"] == "1":
            time.sleep(3600)  # a file server that does not answer
        return torch.full((16,), float(index))


def train_step(batches, step):
    batch = next(batches)
    loss = batch.mean()
    dist.all_reduce(loss)
    return loss


def main():
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        print("next: rankdbg why", flush=True)
    batches = iter(DataLoader(Shards(), batch_size=8, num_workers=2))
    for step in range(100):
        train_step(batches, step)


if __name__ == "__main__":
    main()
