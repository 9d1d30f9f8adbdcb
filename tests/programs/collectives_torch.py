"""4 ranks on gloo: collectives in which somebody is missing.

collectives_torch.py FUNCTION DIRECTORY      writes its dumps there as soon as it has a file `go`
"""

import os
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as recorders


def forever():
    threading.Event().wait()


def reduce(count=4, group=None):
    dist.all_reduce(torch.ones(count), group=group)


def skips():
    """Rank 2 leaves an all_reduce out and does something else."""
    for _ in range(3):
        reduce()
    if dist.get_rank() == 2:
        forever()
    reduce()


def other_operation():
    """Rank 1 comes with a broadcast where the others reduce."""
    reduce()
    if dist.get_rank() == 1:
        dist.broadcast(torch.ones(4), 1)
    reduce()


def other_shape():
    """Rank 3 comes with a tensor of another size; gloo lets it out, and nobody else."""
    reduce()
    reduce(2 if dist.get_rank() == 3 else 4)
    forever()


def chain():
    """0 and 1 wait in a group of their own and 3; 3 waits in another for 2, who is culprit."""
    first = dist.new_group([0, 1, 3], group_desc="first")
    second = dist.new_group([2, 3], group_desc="second")
    reduce()
    if dist.get_rank() == 2:
        forever()
    if dist.get_rank() == 3:
        reduce(group=second)
    reduce(group=first)


def sends():
    """0, 1 and 3 reduce; 3 is in a recv before, from 2, who never sends."""
    reduce()
    if dist.get_rank() == 2:
        forever()
    if dist.get_rank() == 3:
        dist.recv(torch.ones(4), 2)
    reduce()


def only_receives():
    """Nothing but a recv, and nobody who sends."""
    if dist.get_rank() == 0:
        dist.recv(torch.ones(4), 1)
    forever()


def trains():
    """Healthy: every collective ends."""
    while True:
        reduce()
        time.sleep(0.01)  # without it, a job takes all processors


def done():
    reduce()
    forever()


def write_dumps(directory):
    rank = dist.get_rank()
    while not (directory / "go").exists():
        threading.Event().wait(0.05)
    name, dump = f"trace_rank_{rank}.json", recorders._dump_fr_trace_json
    if rank == 1:
        name, dump = f"trace_rank_{rank}", recorders._dump_fr_trace  # a pickle with stacks
    (directory / f".{name}").write_bytes(dump())
    os.rename(directory / f".{name}", directory / name)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    writer = threading.Thread(target=write_dumps, args=(Path(sys.argv[2]),), daemon=True)
    writer.start()
    globals()[sys.argv[1]]()


main()
