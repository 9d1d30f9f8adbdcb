"""history_torch.py STORY: two or more gloo ranks, of which the last may leave the others.

skips       leaves a collective out in step 41, and goes on until the others wait for it
same        all do the same; rank 0 marks and prints more than the others
stages      two stages of a pipeline that send to each other
optimizer   reports no steps: an optimizer has them
raises      rank 0 raises in step 5
ends        all end well
"""

import os
import sys
import threading

import torch
import torch.distributed as dist

import rankdbg

STEPS = 60
story = sys.argv[1]
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.ones(8)


def train():
    for step in range(STEPS):
        rankdbg.progress(step)
        dist.all_reduce(total)
        accepted = 0 if story == "skips" and rank == world - 1 and step == 41 else 17
        rankdbg.mark("accepted", accepted)
        if accepted == 0:
            continue
        if story == "same" and rank == 0:
            rankdbg.mark("loss", float(step))
        if story == "raises" and rank == 0 and step == 5:
            raise ValueError("five")
        dist.all_reduce(total)


def run_stages():
    for step in range(STEPS):
        rankdbg.progress(step)
        if rank % 2 == 0:
            dist.send(total, rank + 1)
        else:
            dist.recv(total, rank - 1)
            dist.send(total, rank - 1)
        if rank % 2 == 0:
            dist.recv(total, rank + 1)


def optimize():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for step in range(STEPS):
        parameter.grad = torch.ones(2)
        if not (rank == world - 1 and step == 30):
            dist.all_reduce(parameter.grad)
        optimizer.step()
    wait()


def wait():
    os.write(1, b"waits\n")  # in one piece, beside the other ranks'
    threading.Event().wait()


stories = {"stages": run_stages, "optimizer": optimize}
stories.get(story, train)()
if story not in ("ends", "raises"):
    wait()
