"""One rank fails; it is held with the frames of its exception, and the others wait for it.

    rankdbg run --break-on-error -- torchrun --nproc-per-node 4 examples/error_on_one_rank.py

Then, from another terminal:

    $ rankdbg list
    $ rankdbg cast 2 'p sample'
"""

import torch
import torch.distributed as dist


def load(step, rank):
    sample = {"step": step, "tokens": torch.arange(4)}
    if rank == 2 and step == 3:
        del sample["tokens"]  # a shard that was cut short
    return sample["tokens"]


def main():
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        print("next: rankdbg cast 2 'p sample'", flush=True)
    for step in range(10):
        loss = load(step, dist.get_rank()).float().mean()
        dist.all_reduce(loss)


if __name__ == "__main__":
    main()
