"""python profiled_torch.py [KIND]: ranks over gloo, the last of which loads its data slowly.

The others wait for it in all_reduce. With `hoards`, the last one allocates more and more, and
begins anew when it holds 200 MB: whenever somebody looks, it hoards.
"""

import os
import sys
import threading
import time

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
KIND = sys.argv[1] if len(sys.argv) > 1 else ""
hoard = []


def load_batch():
    if RANK == WORLD - 1:
        time.sleep(0.05)
        if KIND == "hoards":
            if len(hoard) == 200:
                hoard.clear()
            hoard.append(bytearray(1_000_000))
    return torch.ones(64, 64)


def forward(batch):
    return (batch @ batch).relu().sum()


def train_step():
    loss = forward(load_batch())
    dist.all_reduce(loss)
    return loss.item()


def pump():
    threading.Event().wait()


def main():
    threading.Thread(target=pump, name="pump", daemon=True).start()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    step = 0
    while True:
        train_step()
        step += 1


if __name__ == "__main__":
    main()
