"""A job that takes long to start, and in which nothing is wrong: one rank imports for longer, the
other arrives late at init_process_group, builds its model with threads, and all make optimizers."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import many_modules
import torch
import torch.distributed as dist
from torch import nn

RANK = int(os.environ["RANK"])
LONG = 6.0  # seconds: `why` accuses after less than that where a job runs


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        if RANK == 1:
            with ThreadPoolExecutor(2) as pool:
                self.weights = [*pool.map(read_shard, range(2))]

    def forward(self, values):
        for layer in self.layers:
            values = torch.relu(layer(values))
        return values


def read_shard(_):
    begun = time.thread_time()
    while time.thread_time() - begun < LONG / 2:
        sum(range(1000))


if RANK == 1:
    many_modules.load(LONG)
if RANK == 0:
    time.sleep(2 * LONG)  # a download
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(Model())
optimizer = torch.optim.AdamW(model.parameters())  # imports torch._dynamo
model(torch.ones(2, 32)).sum().backward()
optimizer.step()
print(f"rank {RANK}: first step\n", end="", flush=True)
dist.barrier()
time.sleep(600)
