"""Process groups with short timeouts, and ranks that let the others wait.

groups_torch.py FUNCTION SECONDS    what to do, and the default group's timeout
"""

import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

LIMIT = int(sys.argv[2])


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


def held_before_reduce():
    """Rank 1 enters the collective when it has been told that rank 0 is stopped."""
    stop_in(0)
    while dist.get_rank() == 1 and limit_of_default_group() == LIMIT:
        time.sleep(0.01)
    say(reduce())
    stop_in(1)


def limit_of_default_group():
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    return int(backend.options._timeout.total_seconds())


def one_stops():
    stop_in(0)
    threading.Event().wait()


def stops_late():
    """Rank 0 stops when it is told to, by a file: rank 1 waits in the collective by then."""
    while dist.get_rank() == 0 and not os.path.exists(os.environ["STOP_WHEN"]):
        time.sleep(0.01)
    stop_in(0)
    reduce_alone(torch.ones(1))


def before_all_else():
    """Whatever waits for other ranks, one after the other; a rank stops before each."""
    around_new_group()
    before_send()
    before_monitored_barriers()
    before_store()
    say(reduce())


def around_new_group():
    stop_in(0)
    group = dist.new_group(timeout=timedelta(seconds=LIMIT))
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
        dist.monitored_barrier(timeout=timedelta(seconds=LIMIT))


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


def leave_together():
    """Rank 0 has the store, and what it has sent last may not have been read yet."""
    store = dist.distributed_c10d._get_default_store()
    count = store.add("left", 1)
    while dist.get_rank() == 0 and count < dist.get_world_size():
        time.sleep(0.01)
        count = store.add("left", 0)


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=LIMIT))
    globals()[sys.argv[1]]()
    leave_together()
    dist.destroy_process_group()


main()
