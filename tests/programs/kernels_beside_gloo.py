"""kernels_beside_gloo.py KIND: ranks that share a GPU add numbers with gloo, step by step. From some step
on rank 2 does KIND on the GPU before that; each rank prints a line at that step."""

import os
import sys
import time

import torch
import torch.distributed as dist

RANK, KIND, LAST = int(os.environ["RANK"]), sys.argv[1], 5
FOREVER, A_SECOND = 2**62, 2_000_000_000  # cycles


def never_ends(weights):
    torch.cuda._sleep(FOREVER)


def on_another_stream(weights):
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        torch.cuda._sleep(FOREVER)
    torch.cuda.current_stream().wait_stream(other)
    weights.add_(1)


def polled(weights):
    """By the host, which sleeps in between."""
    torch.cuda._sleep(FOREVER)
    event = torch.cuda.Event()
    event.record()
    while not event.query():
        time.sleep(0.01)


def one_after_another(weights):
    for _ in range(600):
        torch.cuda._sleep(A_SECOND)


def graphs(weights):
    """Their kernels have the same number at each launch."""
    for _ in range(3):
        weights.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.cuda._sleep(A_SECOND // 2)
    for _ in range(1000):
        graph.replay()


def log_loss(loss):
    return loss.item()


def main():
    dist.init_process_group("gloo")
    weights = torch.randn(64, 64, device="cuda")
    log_loss(weights.tanh().mean())  # all that is loaded at the first use
    for step in range(100_000):
        loss = weights.tanh().mean()
        if step == LAST:
            print("ready", flush=True)
            if RANK == 2:
                globals()[KIND](weights)
        log_loss(loss.mul(2))
        dist.all_reduce(torch.ones(4))


main()
