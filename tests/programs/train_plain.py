"""python train_plain.py: ranks that train a small model with plain torch, over gloo, without end."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class Samples(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        sample = torch.randn(3, 16, 16)
        # A transformation that is a function of torch.nn, and no forward pass.
        return nn.functional.interpolate(sample[None], scale_factor=8.0, mode="bicubic")[0, 0, 0]


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner = nn.Linear(size, size)

    def forward(self, value):
        return torch.relu(self.inner(value))


def train():
    dist.init_process_group("gloo")
    model = nn.Sequential(*(Block(128) for _ in range(40)))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    loss_of = nn.MSELoss()
    for step, batch in enumerate(DataLoader(Samples(), batch_size=8)):
        loss = loss_of(model(batch), batch)
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        if step == 3:
            print(f"rank {os.environ['RANK']}: trains", flush=True)


train()
