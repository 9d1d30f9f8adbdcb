"""A process that multiplies matrices on a GPU, and keeps some more memory at each step."""

import torch

kept = []


def hoard():
    if len(kept) < 1000:
        kept.append(torch.ones(1 << 18, device="cuda"))


def step(matrix):
    hoard()
    return (matrix @ matrix).sum().item()


matrix = torch.ones(1024, 1024, device="cuda")
while True:
    step(matrix)
