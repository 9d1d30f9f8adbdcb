"""A child of rank 2 was to put its result into a queue, and has died before."""

import multiprocessing
import os

import training


def tokenize(queue):
    os._exit(1)


training.begin()
if training.RANK == 2:
    queue = multiprocessing.Queue()
    multiprocessing.Process(target=tokenize, args=(queue,)).start()
    queue.get()
training.step()
