"""A process that multiplies matrices on a GPU, and keeps what it allocates for many steps."""

from collections import deque

import torch

kept = deque(maxlen=1000)


def hoard():
    kept.append(torch.ones(1 << 18, device="cuda"))


def step(matrix):
    hoard()
    return (matrix @ matrix).sum().item()


matrix = torch.ones(1024, 1024, device="cuda")
while True:
    step(matrix)
