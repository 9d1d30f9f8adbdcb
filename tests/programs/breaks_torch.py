"""Under torchrun: each step is an all-reduce. With the word `tells` it tells its steps."""

import sys
import time

import torch
import torch.distributed as dist

import rankdbg

TELLS = sys.argv[1:] == ["tells"]


def trains():
    step = 0
    while True:
        total = torch.ones(1)
        dist.all_reduce(total)
        step += 1  # in trains
        if TELLS:
            rankdbg.progress(step)
        time.sleep(0.001)


dist.init_process_group("gloo")
trains()
