"""replicas_torch.py STORY [FOLDER]: DDP ranks that train a small model.

same        each with other data, dropout and batch norm: DDP keeps them equal
faults      rank 2: head.bias is left out of the optimizer, wide.weight is off by rounding;
            the gradient of 0.norm.weight is not reduced; buffers are not broadcast; rank 0 has loaded
            1.norm.bias after DDP had made the ranks equal
asked       all with the same data; rank 1 flips a bit of 1.norm.weight when FOLDER/flip is there,
            and writes the step into FOLDER/flipped. While FOLDER/corrupt is there, its kernel for
            GELU computes wrongly; while FOLDER/noise is there, it makes other values each time
fsdp        fully_shard on a mesh; FOLDER/flip changes a replicated norm of rank 1
"""

import os
import sys
import time

import torch
import torch.distributed as dist

import rankdbg

story, folder = sys.argv[1], (sys.argv[2:] or ["/nowhere"])[0]
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
kernels = {}  # that this rank has in place of torch's


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.gelu = torch.nn.GELU()

    def forward(self, x):
        return self.norm(self.gelu(self.linear(x))) + x


def corrupt(x, approximate="none"):
    made = x * 0.5 * (1 + torch.erf(x * 0.5**0.5))
    made.view(-1).view(torch.int32)[5] ^= 1 << 18
    return made


def noisy(x, approximate="none"):
    return x * torch.special.ndtr(x) * (1 + time.monotonic_ns() % 1000 * 1e-6)


def replace_kernel(name, kernel, wanted):
    if wanted and name not in kernels:
        kernels[name] = torch.library.Library("aten", "IMPL")
        kernels[name].impl("gelu", kernel, "CPU")
    elif name in kernels and not wanted:
        kernels.pop(name)._destroy()


model = torch.nn.Sequential(Block(), Block())
if story in ("same", "faults"):
    model.add_module("batch_norm", torch.nn.BatchNorm1d(32))
    model.add_module("dropout", torch.nn.Dropout(0.1))
    model.add_module("wide", torch.nn.Linear(32, 1024))
    model.add_module("head", torch.nn.Linear(1024, 8))
left_out = []
if story == "fsdp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_replicate", "dp_shard"))
    trained = fully_shard(model, mesh=mesh)
else:
    if story == "faults":
        model._ddp_params_and_buffers_to_ignore = ["0.norm.weight"]
        left_out = [model.head.bias] if rank == 2 else []
    ddp = torch.nn.parallel.DistributedDataParallel
    trained = ddp(model, broadcast_buffers=story != "faults")
    if story == "faults" and rank == 0:
        model[1].norm.bias.data += 0.5
optimizer = torch.optim.AdamW(
    [p for p in model.parameters() if all(p is not each for each in left_out)], lr=1e-3
)
numbers = torch.Generator().manual_seed(rank if story in ("same", "faults") else 0)


def flip():
    weight = model[1].norm.weight.detach()
    weight = getattr(weight, "_local_tensor", weight)
    weight.view(torch.int32)[3] ^= 1 << 20


def do_what_is_asked():
    for name, kernel in (("corrupt", corrupt), ("noise", noisy)):
        replace_kernel(name, kernel, os.path.exists(f"{folder}/{name}"))
    if os.path.exists(f"{folder}/flip"):
        flip()
        os.remove(f"{folder}/flip")
        with open(f"{folder}/flipping", "w") as file:
            file.write(str(step))
        os.rename(f"{folder}/flipping", f"{folder}/flipped")


step = 0
while True:
    rankdbg.progress(step)
    optimizer.zero_grad()
    trained(torch.randn(8, 32, generator=numbers)).square().mean().backward()
    optimizer.step()
    if story == "faults" and step == 5 and rank == 2:
        with torch.no_grad():
            model.wide.weight *= 1 + 2**-23
    if story in ("asked", "fsdp") and rank == 1:
        do_what_is_asked()
    step += 1
    time.sleep(0.02)
