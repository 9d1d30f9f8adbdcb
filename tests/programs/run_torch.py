"""python run_torch.py [METHOD]: a rank of torch.distributed, with two data loader workers."""

import sys

from run_waiting import waits  # isort: split

import torch.distributed
from torch.utils.data import DataLoader

if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    if sys.argv[1:]:
        loader = DataLoader(range(10_000), num_workers=2, multiprocessing_context=sys.argv[1])
        batches = iter(loader)
        next(batches)
    torch.distributed.barrier()
    if torch.distributed.get_rank() == 0:
        print("ready", flush=True)
    waits()
