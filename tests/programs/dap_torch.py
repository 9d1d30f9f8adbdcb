"""When the file GATE is there, each step is an all-reduce, with a few lines
around it for an editor."""

import os
import time

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
GATE = os.environ["GATE"]


def scaled(value):
    doubled = 2 * value  # in scaled
    return doubled


def train_step(step):
    total = torch.full((3, 4), float(RANK))
    weight = scaled(step)  # before it
    dist.all_reduce(total)  # the collective
    mean = total.mean().item()  # after it
    return mean + weight


def train():
    step = 0
    while not os.path.exists(GATE):
        time.sleep(0.005)
    while True:
        train_step(step)  # in train
        step += 1
        time.sleep(0.005)


dist.init_process_group("gloo")
dist.barrier()
train()
