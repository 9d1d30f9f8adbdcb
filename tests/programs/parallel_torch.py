"""parallel_torch.py FOLDER: 4 ranks, dp=2 x tp=2, that train small models side by side.

All are healthy until FOLDER/faults is there. Then each model has a fault of its own, but one:

healthy     none
unreduced   the gradient of its first norm is not reduced across tp
dropout     tp ranks draw different masks
activation  one bit of one activation of rank 1 flips, once
order       rank 3 reads its batches in another order: each one a step late
clipped     gradients are clipped by the norm of this rank's shards alone
dtensor     (DTensor) one bit of the replicated scale of rank 2 flips, once
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import rankdbg

WIDTH = 16
folder = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
dp, tp = mesh["dp"].get_group(), mesh["tp"].get_group()
faults = False  # from the step that all have agreed on
now = False  # in this step


def flip(tensor):
    """Of the largest number: half of one that happens to be near 0 may be lost in rounding."""
    numbers = tensor.detach().view(-1)
    numbers.view(torch.int32)[numbers.abs().argmax()] ^= 1 << 22


class IntoParts(torch.autograd.Function):
    """Each rank computes a part: their gradients are summed."""

    @staticmethod
    def forward(ctx, x, reduces):
        ctx.reduces = reduces
        return x

    @staticmethod
    def backward(ctx, gradient):
        if ctx.reduces:
            gradient = gradient.clone()
            dist.all_reduce(gradient, group=tp)
        return gradient, None


class OutOfParts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x, group=tp)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Block(nn.Module):
    def __init__(self, fault):
        super().__init__()
        part = tp.rank()
        self.fault = fault
        self.norm, self.last_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        whole = torch.randn(2, WIDTH, WIDTH) / 4
        half = slice(part * WIDTH // 2, (part + 1) * WIDTH // 2)
        self.up = nn.Linear(WIDTH, WIDTH // 2)  # the bias is a part, too
        self.down = nn.Linear(WIDTH // 2, WIDTH)  # the bias is added to the sum, and whole
        self.up.weight.data = whole[0][half].clone()
        self.up.bias.data = torch.randn(WIDTH)[half].clone()
        self.down.weight.data = whole[1][:, half].clone()

    def forward(self, x):
        reduces = not (faults and self.fault == "unreduced")
        parts = self.up(IntoParts.apply(self.norm(x), reduces))
        y = OutOfParts.apply(parts @ self.down.weight.t()) + self.down.bias
        y = x + y
        if self.fault == "activation" and now and rank == 1:
            flip(y)
        if self.fault == "dropout":
            y = nn.functional.dropout(y, 0.2)
        return self.last_norm(y)


class Divided(nn.Module):
    def __init__(self):
        super().__init__()
        whole = torch.randn(WIDTH, WIDTH) / 4
        weight = distribute_tensor(whole, mesh, [Replicate(), Shard(0)])
        self.weight = nn.Parameter(weight)
        self.scale = nn.Parameter(distribute_tensor(torch.ones(WIDTH), mesh, [Replicate()] * 2))

    def forward(self, x):
        x = DTensor.from_local(x, mesh, [Shard(0), Replicate()])
        return (x * self.scale) @ self.weight.t()


def train(name, model, optimizer, batch):
    optimizer.zero_grad()
    wanted = batch.roll(1, 1)  # of the same sizes, and nothing that a norm alone gives
    made = model(batch)
    made = made.to_local() if name == "dtensor" else made
    (made - wanted[:, : made.shape[1]]).square().mean().backward()
    if name != "dtensor":
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=dp)
        clip(name, model)
    optimizer.step()


def clip(name, model):
    """By the norm of all gradients; those of replicated parameters count once."""
    parts = (model.up.weight, model.up.bias, model.down.weight)
    shards = sum(each.grad.square().sum() for each in parts)
    if not (faults and name == "clipped"):
        dist.all_reduce(shards, group=tp)
    rest = (model.norm.weight, model.last_norm.weight, model.down.bias)
    whole = sum(each.grad.square().sum() for each in rest)
    norm = (shards + whole).sqrt()
    for parameter in model.parameters():
        parameter.grad *= (0.05 / norm).clamp(max=1)


def main():
    global faults, now
    torch.manual_seed(0)
    names = ("healthy", "unreduced", "dropout", "activation", "order", "clipped")
    models = {**{name: Block(name) for name in names}, "dtensor": Divided()}
    optimizers = {name: torch.optim.SGD(m.parameters(), 0.1) for name, m in models.items()}
    torch.manual_seed(dp.rank())  # masks differ along dp, and are equal along tp
    data = torch.Generator().manual_seed(dp.rank())
    step, batch = 0, torch.randn(8, WIDTH, generator=data)
    while True:
        rankdbg.progress(step)
        wanted = torch.tensor(int(os.path.exists(f"{folder}/faults")))
        dist.all_reduce(wanted, op=dist.ReduceOp.MAX)
        now = bool(wanted) and not faults
        faults = bool(wanted)
        if now and tp.rank() == 1:
            torch.manual_seed(17)
        if now and rank == 2:
            flip(models["dtensor"].scale._local_tensor)
        last, batch = batch, torch.randn(8, WIDTH, generator=data)
        for name, model in models.items():
            other = faults and name == "order" and rank == 3
            train(name, model, optimizers[name], last if other else batch)
        if now and rank == 0:
            with open(f"{folder}/injecting", "w") as file:
                file.write(str(step))
            os.rename(f"{folder}/injecting", f"{folder}/injected")
        step += 1
        time.sleep(0.02)


main()
