"""A training loop that goes on, with a loss that is nan on one rank.

    rankdbg run -- torchrun --nproc-per-node 4 examples/nan_on_one_rank.py

Then, from another terminal, without stopping it:

    $ rankdbg ask all loss --frame train
    $ rankdbg ask all 'model.weight' --frame train
    $ rankdbg ask all batch --frame train
"""

import time

import torch
import torch.distributed as dist


def load_batch(rank, step):
    batch = torch.rand(32, 8)
    if rank == 2 and step > 20:
        batch[3, 1] = float("nan")  # a corrupt sample
    return batch


def train():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        print("next: rankdbg ask all loss --frame train", flush=True)
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    for step in range(100_000):
        batch = load_batch(rank, step)
        loss = model(batch).pow(2).mean()
        loss.backward()
        model.zero_grad()
        time.sleep(0.05)
        dist.barrier()


if __name__ == "__main__":
    train()
