"""One rank takes another branch in step 41, leaves a collective out, and trains on. The job hangs a
hundred steps later, at the end, where nothing tells of it.

rankdbg run --job branch -- torchrun --nproc-per-node 4 examples/takes_another_branch.py &
rankdbg history --job branch
"""

import torch
import torch.distributed as dist

import rankdbg


def accept(samples, step):
    """How many are good enough; in one batch of one rank none is."""
    return 0 if dist.get_rank() == 2 and step == 41 else len(samples)


def train():
    gradients = torch.ones(1000)
    for step in range(140):
        rankdbg.progress(step)
        dist.all_reduce(gradients)
        accepted = accept(gradients, step)
        rankdbg.mark("accepted", accepted)
        if accepted == 0:
            continue
        dist.all_reduce(gradients)
    dist.barrier()


dist.init_process_group("gloo")
if dist.get_rank() == 0:
    print("next: rankdbg history", flush=True)
train()
