"""Rank 2 gathers first and reduces then; the others do it the other way round."""

import torch
import torch.distributed as dist
import training


def gather():
    dist.all_gather([torch.ones(10) for _ in range(training.WORLD)], torch.ones(10))


training.begin()
for metric in (gather, training.step) if training.RANK == 2 else (training.step, gather):
    metric()
