"""Process groups with short timeouts, and ranks that let the others wait.

groups_torch.py FUNCTION SECONDS [DIRECTORY]    what to do, and the default group's timeout;
                                                where ranks meet that load torch each by itself
"""

import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def reduce(group=None):
    total = torch.ones(1)
    dist.all_reduce(total, group=group)
    return int(total.item())


def say(total):
    os.write(1, b"together %d\n" % total)  # in one piece, beside the other rank's


def before_reduce():
    if dist.get_rank() == 0:
        breakpoint()
    say(reduce())


def before_all_else():
    """Whatever waits for other ranks, one after the other; a rank stops before each."""
    around_new_group()
    before_send()
    before_monitored_barriers()
    before_store()
    say(reduce())


def around_new_group():
    stop_in(0)
    group = dist.new_group(timeout=timedelta(seconds=4))
    stop_in(0)
    reduce(group)


def before_send():
    stop_in(0)
    if dist.get_rank() == 0:
        dist.send(torch.ones(1), 1)
    else:
        dist.recv(torch.ones(1), 0)


def before_monitored_barriers():
    """Rank 0 goes by the argument, the others by the timeout of the group's making."""
    for late in (0, 1):
        stop_in(late)
        dist.monitored_barrier(timeout=timedelta(seconds=5))


def before_store():
    store = dist.distributed_c10d._get_default_store()
    stop_in(0)
    if dist.get_rank() == 0:
        store.set("key", "1")
    store.get("key")


def stop_in(rank):
    if dist.get_rank() == rank:
        breakpoint()


def both_stop():
    other = dist.new_group(timeout=timedelta(seconds=7))
    breakpoint()
    seen = other


def one_reduces():
    """Rank 1 waits in a collective that began before anybody came to look."""
    reduce()
    if dist.get_rank() == 0:
        threading.Event().wait()
    reduce_alone(torch.ones(1))


def reduce_alone(total):
    dist.all_reduce(total)


def meet(directory):
    """Whoever has loaded torch seconds before the others would time out before they come."""
    with open(os.path.join(directory, os.environ["RANK"]), "w"):
        pass
    while len(os.listdir(directory)) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.01)


def main():
    if len(sys.argv) > 3:
        meet(sys.argv[3])
    dist.init_process_group("gloo", timeout=timedelta(seconds=int(sys.argv[2])))
    globals()[sys.argv[1]]()
    dist.destroy_process_group()


main()
