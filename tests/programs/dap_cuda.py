"""A rank with tensors on its GPU, for an editor to look at."""

import time

import torch


def looks():
    ones = torch.ones(1000, 1000, device="cuda")
    loss = torch.tensor(0.25, device="cuda")
    torch.cuda.synchronize()
    while True:
        time.sleep(0.01)  # with tensors


looks()
