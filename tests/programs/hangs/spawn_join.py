"""Rank 2 waits for a spawned child, which waits for something of its own: no lock was copied."""

import multiprocessing
import threading

import training


def evaluate():
    threading.Event().wait()


if __name__ == "__main__":
    training.begin()
    if training.RANK == 2:
        child = multiprocessing.get_context("spawn").Process(target=evaluate)
        child.start()
        print("child", child.pid, flush=True)
        child.join()
    training.step()
