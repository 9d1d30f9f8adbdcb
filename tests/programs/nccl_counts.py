"""Two ranks of NCCL on one GPU, of which rank 0 reduces once more than rank 1.

NCCL refuses a second rank on a GPU of the same host: each rank gives itself a host of its own.
"""

import os
import time

import torch
import torch.distributed as dist

os.environ["NCCL_HOSTID"] = os.environ["RANK"]


def wait_for_input_files():
    while True:
        time.sleep(0.5)


dist.init_process_group("nccl")
total = torch.ones(1, device="cuda")
for _ in range(3):
    dist.all_reduce(total)
torch.cuda.synchronize()
print("reduced", flush=True)
if dist.get_rank() == 1:
    wait_for_input_files()
dist.all_reduce(total)
torch.cuda.synchronize()
