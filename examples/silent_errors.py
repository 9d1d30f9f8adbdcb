"""Silent errors of training that were reported in public, rebuilt small. Three ranks train; nothing fails.

loaded   rank 0 loads a checkpoint after DDP has made the ranks equal: they stay out of sync
buffer   the statistics of a batch norm are not broadcast: each rank evaluates another model
clipped  tensor parallelism; gradients are clipped by the norm of each rank's own shards
none     the healthy twin of the first two

rankdbg run --job silent -- torchrun --nproc-per-node 3 examples/silent_errors.py loaded &
rankdbg diverge --job silent --first
"""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.nn.functional import all_reduce

import rankdbg


class ParallelBlock(nn.Module):
    """Each rank has a third of the two matrices, and all of the norm."""

    def __init__(self, mesh):
        super().__init__()
        self.mesh = mesh
        third = slice(dist.get_rank() * 16, dist.get_rank() * 16 + 16)
        up, down = torch.randn(48, 48) / 7, torch.randn(48, 48) / 7
        self.up = nn.Parameter(up[:, third].clone())
        self.down = nn.Parameter(down[third].clone())
        self.norm = nn.LayerNorm(48)

    def forward(self, x):
        return self.norm(x + all_reduce((x @ self.up).relu() @ self.down))


def data_parallel(error):
    """The model, what is called in its place, and what is done before the optimizer's step."""
    model = nn.Sequential(nn.Linear(48, 48), nn.BatchNorm1d(48), nn.Linear(48, 48))
    trained = nn.parallel.DistributedDataParallel(model, broadcast_buffers=error != "buffer")
    if error == "loaded" and dist.get_rank() == 0:
        checkpoint = nn.Linear(48, 48).state_dict()
        model[2].load_state_dict(checkpoint)  # after DDP has sent the parameters to all ranks
    return model, trained, lambda: None


def tensor_parallel():
    model = ParallelBlock(init_device_mesh("cpu", (3,), mesh_dim_names=("tp",)))
    # The shards of other ranks are not in this norm.
    return model, model, lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def train(error):
    torch.manual_seed(0)
    model, trained, clip = tensor_parallel() if error == "clipped" else data_parallel(error)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(0 if error == "clipped" else dist.get_rank())
    if dist.get_rank() == 0:
        print("next: rankdbg diverge", flush=True)
    step = 0
    while True:
        rankdbg.progress(step)
        batch = torch.randn(32, 48, generator=data)
        optimizer.zero_grad()
        (trained(batch) - batch.roll(1, 1)).square().mean().backward()
        clip()
        optimizer.step()
        step += 1
        time.sleep(0.03)


dist.init_process_group("gloo")
train((sys.argv[1:] or ["loaded"])[0])
