"""A CUDA kernel that never ends, and a host that waits for it.

stuck_kernel.py [nccl]      with nccl: in a group of its own, an all_reduce comes after it
"""

import sys

import torch
import torch.distributed as dist

FOREVER = 2**62  # cycles: 70 years


def wait_for_the_gpu(numbers):
    return numbers.sum().item()


def begin_group():
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1)
    numbers = torch.ones(4, device="cuda")
    dist.all_reduce(numbers)  # connects
    torch.cuda.synchronize()


def main():
    numbers = torch.ones(4, device="cuda")
    wait_for_the_gpu(numbers)  # all that is loaded at the first use
    if sys.argv[1:] == ["nccl"]:
        begin_group()
    torch.cuda._sleep(FOREVER)
    if sys.argv[1:] == ["nccl"]:
        dist.all_reduce(numbers)
    print("stuck", flush=True)
    wait_for_the_gpu(numbers)


main()
