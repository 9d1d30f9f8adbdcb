"""python run_torch_spawn.py WORLD FILE: torch's ranks in the reverse order of the processes."""

import sys

from run_waiting import waits  # isort: split

import torch.distributed
import torch.multiprocessing


def rank(index, world, file):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{file}", rank=world - 1 - index, world_size=world
    )
    torch.distributed.barrier()
    if index == 0:
        print("ready", flush=True)
    waits()


if __name__ == "__main__":
    world, file = int(sys.argv[1]), sys.argv[2]
    torch.multiprocessing.spawn(rank, args=(world, file), nprocs=world)
