"""labels_torch.py FUNCTION: ranks on gloo that give themselves places in a mesh, and wait."""

import sys
import threading

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


def waits(**_):
    threading.Event().wait()


def hangs_in_tp():
    """4 ranks, of which rank 3 leaves a collective of the dimension tp out."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dist.all_reduce(torch.ones(1))
    if dist.get_rank() != 3:
        dist.all_reduce(torch.ones(4), group=mesh.get_group("tp"))
    waits()


def whole():
    """A dimension with all ranks: it uses the default group."""
    waits(mesh=init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp")))


def flattened():
    """4 ranks, with a second mesh that has no names."""
    mesh = init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("replicate", "shard", "tp"))
    other = init_device_mesh("cpu", (2, 2))
    waits(mesh=mesh, part=mesh["shard", "tp"]._flatten("fsdp"), one=mesh["tp"], other=other)


def nameless():
    waits(mesh=init_device_mesh("cpu", (2, 1)))


def tensors():
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
    whole = torch.arange(32.0).reshape(8, 4)
    waits(
        sharded=distribute_tensor(whole, mesh, [Shard(0), Replicate()]),
        summed=DTensor.from_local(torch.ones(2), mesh, [Partial(), Replicate()]),
        loss=DTensor.from_local(torch.tensor(0.5), mesh, [Partial(), Replicate()]),
        same=DTensor.from_local(torch.tensor(0.5), mesh, [Replicate(), Replicate()]),
    )


dist.init_process_group("gloo")
globals()[sys.argv[1]]()
