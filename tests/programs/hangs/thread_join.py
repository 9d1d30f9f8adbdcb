"""Rank 1 waits for the end of a thread that waits to be told to end."""

import threading

import training

ended = threading.Event()


def prefetch():
    ended.wait()


training.begin()
if training.RANK == 1:
    thread = threading.Thread(target=prefetch, name="prefetch")
    thread.start()
    thread.join()
training.step()
