"""Each rank stops before an all-reduce."""

import threading

import torch
import torch.distributed as dist


def train_step(total):
    breakpoint()
    dist.all_reduce(total)
    seen = int(total.item())
    return seen


def main():
    dist.init_process_group("gloo")
    dist.barrier()
    train_step(torch.ones(1))
    threading.Event().wait()


main()
