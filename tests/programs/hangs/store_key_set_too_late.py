"""Rank 1 waits for a key of the store, which a function of rank 0 sets, but only after a step in which
rank 1 has to take part.

With `all` all other ranks wait for it, as rank 1 does. With `served` rank 0 sets one key after another,
and rank 1 gets each.
"""

import itertools
import sys
import time

import torch.distributed as dist
import training


def prepare(store, name):
    if training.RANK == 1 or (training.RANK and "all" in sys.argv):
        store.get(f"{name} is ready")
    training.step()
    if training.RANK == 0:
        store.set("tokenizer is ready", "yes")


def serve(store):
    for number in itertools.count():
        if training.RANK == 0:
            time.sleep(0.05)
            store.set(f"batch {number}", "yes")
        else:
            store.get(f"batch {number}")


training.begin()
shared = dist.distributed_c10d._get_default_store()
if "served" in sys.argv:
    serve(shared)
prepare(shared, "tokenizer")
