"""python worker_trouble.py TROUBLE: a DataLoader with two workers, of which one is in trouble in the
last rank, or none is."""

import os
import signal
import sys
import threading
import time

import training
from torch.utils.data import DataLoader, Dataset

TROUBLE = sys.argv[1]
# A named pipe that nobody writes into.
FIFO = os.path.join(os.path.dirname(os.environ["RANKDBG_DIR"]), "shard")
LOCK = threading.Lock()
WORKERS = 1 if TROUBLE == "all-killed" else 2


def read_shard(index):
    """An item that comes after some that were well."""
    if TROUBLE == "fifo":
        with open(FIFO) as file:
            file.read()
    elif TROUBLE == "lock":
        with LOCK:
            pass
    elif TROUBLE == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif TROUBLE in ("killed", "all-killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    elif TROUBLE == "spinning":
        while True:
            index += 1
    elif TROUBLE == "kernel":
        import ctypes

        # vfork stands in for a file system: who calls it is in state D until the child is gone.
        if ctypes.CDLL(None).vfork() == 0:
            while True:
                signal.pause()
    elif TROUBLE == "polling":
        while not os.path.exists(FIFO + ".ready"):
            time.sleep(0.1)


def read_slowly():
    """A storage that answers every tenth of a second, for a while."""
    reading, writing = os.pipe()
    if not os.fork():
        for _ in range(100):
            time.sleep(0.1)
            os.write(writing, b"x")
        os._exit(0)
    for _ in range(100):
        os.read(reading, 1)


class Samples(Dataset):
    def __len__(self):
        return 10_000

    def __getitem__(self, index):
        if training.RANK == training.WORLD - 1 and index == 5:
            read_shard(index)
        if TROUBLE == "slow" and index % 2:
            read_slowly()
        return index


def load():
    # No tensors, which are fetched from the worker itself: who takes one from the dead is told so.
    return DataLoader(Samples(), num_workers=WORKERS, collate_fn=list)


def main():
    if training.RANK == training.WORLD - 1:
        os.mkfifo(FIFO)
    training.begin()
    if TROUBLE == "lock":
        LOCK.acquire()  # and the workers are forked with it
    batches = iter(load())
    if TROUBLE == "idle-workers" and training.RANK == training.WORLD - 1:
        next(batches)
        with open(FIFO) as file:  # the rank itself, while its workers have nothing to do
            file.read()
    if TROUBLE in ("killed", "all-killed"):
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that torch is not told
    for _ in batches:
        training.step()


main()
