"""nan_torch.py FILE: two DDP ranks with masked attention, whose scores are -inf above the diagonal.
Once FILE is there, one batch of rank 1 has a sample of zeros, which a module divides by its norm."""

import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

import rankdbg


class Scores(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mask", torch.triu(torch.full((size, size), -torch.inf), 1))

    def forward(self, x):
        return x @ x.transpose(-2, -1) + self.mask


class UnitRows(nn.Module):
    def forward(self, x):
        return x / x.norm(dim=-1, keepdim=True)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.linear, self.scores = UnitRows(), nn.Linear(8, 8), Scores(5)

    def forward(self, x):
        x = self.linear(self.rows(x))
        return self.scores(x).softmax(-1) @ x


def train(file):
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    torch.manual_seed(0)
    model = nn.Sequential(Attention(), nn.LayerNorm(8))
    trained = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    step, bad_step = 0, None
    while True:
        rankdbg.progress(step)
        batch = torch.randn(4, 5, 8)
        if bad_step is None and dist.get_rank() == 1 and os.path.exists(file):
            bad_step = step
            batch[2, 3] = 0
        optimizer.zero_grad()
        trained(batch).square().mean().backward()
        optimizer.step()
        step += 1
        time.sleep(0.02)


train(sys.argv[1])
