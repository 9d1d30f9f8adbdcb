"""Three DDP ranks; in step 50 one of them gets a sample of zeros, and divides it by its norm.

rankdbg run --job nans --stop-on-nan -- torchrun --nproc-per-node 3 examples/nan_from_one_batch.py &
rankdbg nan --job nans
"""

import time
from collections import OrderedDict

import torch
import torch.distributed as dist
from torch.nn import LayerNorm, Linear, Module, Sequential
from torch.nn.parallel import DistributedDataParallel

import rankdbg


class UnitRows(Module):
    def forward(self, rows):
        return rows / rows.norm(dim=-1, keepdim=True)


def train():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = {
        "rows": UnitRows(),
        "inner": Linear(64, 64),
        "norm": LayerNorm(64),
        "head": Linear(64, 16),
    }
    model = Sequential(OrderedDict(layers))
    trained = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if dist.get_rank() == 0:
        print("next: rankdbg nan", flush=True)
    for step in range(100_000):
        rankdbg.progress(step)
        batch = torch.randn(32, 64)
        if step == 50 and dist.get_rank() == 1:
            batch[7] = 0
        optimizer.zero_grad()
        trained(batch).square().mean().backward()
        optimizer.step()
        time.sleep(0.05)


if __name__ == "__main__":
    train()
