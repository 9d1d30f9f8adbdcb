"""Two threads of rank 1 take two locks, each in an order of its own."""

import threading

import training

cache, index = threading.Lock(), threading.Lock()
both = threading.Barrier(2)


def take(first, second):
    with first:
        both.wait()
        with second:
            pass


training.begin()
if training.RANK == 1:
    threading.Thread(target=take, args=(index, cache), name="refresh").start()
    take(cache, index)
training.step()
