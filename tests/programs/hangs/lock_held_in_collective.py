"""Rank 0 comes to a collective with the lock of a file, which rank 1 wants before it. `polled`: the
lock of a database, for which it sleeps and tries again. `passed`: each releases it in time."""

import fcntl
import sqlite3
import sys
import tempfile
import time

import torch.distributed as dist
import training

KIND = sys.argv[1:]


def folder_of_rank_0():
    told = [tempfile.mkdtemp() if training.RANK == 0 else None]
    dist.broadcast_object_list(told)
    return told[0]


def take(folder):
    if KIND == ["polled"]:
        index = sqlite3.connect(f"{folder}/index.db", isolation_level=None, timeout=3600)
        index.execute("begin exclusive")
    else:
        index = open(f"{folder}/index.lock", "w")
        fcntl.flock(index, fcntl.LOCK_EX)
    return index


training.begin()
folder = folder_of_rank_0()
while KIND == ["passed"]:
    with take(folder):
        time.sleep(0.3)
    training.step()
if training.RANK == 0:
    index = take(folder)
training.step()
if training.RANK == 1:
    index = take(folder)
training.step()
