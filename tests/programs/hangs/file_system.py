"""Rank 1 reads from a file system that does not answer: the kernel does not let it go (state D)."""

import ctypes
import signal

import training


def read_shard():
    # vfork stands in for the file system: who calls it is in state D until the child is gone.
    if ctypes.CDLL(None).vfork() == 0:
        while True:
            signal.pause()


training.begin()
if training.RANK == 1:
    read_shard()
training.step()
