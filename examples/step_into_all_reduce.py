"""Four ranks stop before an all-reduce; step one of them into it, and see who waits.

    rankdbg run -- torchrun --nproc-per-node 4 examples/step_into_all_reduce.py

Then, from another terminal:

    $ rankdbg shell
"""

import torch
import torch.distributed as dist


def train_step(step, weight):
    loss = (weight * (dist.get_rank() + 1)).sum()
    breakpoint()
    dist.all_reduce(loss)
    scale = 1 / loss.item()
    return weight * scale


def main():
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        print("next: rankdbg shell", flush=True)
    weight = torch.ones(4)
    for step in range(3):
        weight = train_step(step, weight)


main()
