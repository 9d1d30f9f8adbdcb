"""python nsys_cuda.py COUNT: tells COUNT steps (0: for ever), with seven kernels in each."""

import itertools
import sys
import time

import torch

import rankdbg

KERNELS = 7


def step(tensor):
    for _ in range(KERNELS):
        tensor.add_(1)
    torch.cuda.synchronize()


if __name__ == "__main__":
    count = int(sys.argv[1])
    tensor = torch.ones(1 << 16, device="cuda")
    step(tensor)  # what CUDA does once is behind it
    for number in itertools.count(1):
        rankdbg.progress(number)
        step(tensor)
        print("step", number, flush=True)
        if number == count:
            break
        time.sleep(0.01)
