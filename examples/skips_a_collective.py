"""Two groups of ranks, and one rank that leaves a collective out: the others wait for it.

rankdbg run --job skips -- torchrun --nproc-per-node 4 examples/skips_a_collective.py &
rankdbg collectives --job skips
"""

import threading

import torch
import torch.distributed as dist


def average_gradients(gradients):
    dist.all_reduce(gradients)


def validate(losses, group):
    if dist.get_rank() != 2:  # it has no data to validate: and so it does not come
        dist.all_reduce(losses, group=group)
    else:
        threading.Event().wait()


def main():
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        print("next: rankdbg collectives", flush=True)
    validators = dist.new_group([2, 3], group_desc="validators")
    for _ in range(5):
        average_gradients(torch.ones(1000))
    if dist.get_rank() >= 2:
        validate(torch.ones(1), validators)
    average_gradients(torch.ones(1000))
    dist.destroy_process_group()


main()
