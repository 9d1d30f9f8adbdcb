"""python run_children.py METHOD HOW COUNT: children of multiprocessing, numbered somehow."""

import multiprocessing
import os
import sys

from run_waiting import waits


def by_environment(index):
    os.environ.update(RANK=str(index), WORLD_SIZE=sys.argv[3])
    waits()


def by_init(index):
    import rankdbg

    rankdbg.init(rank=index)
    waits()


def by_nothing(index):
    waits()


def with_a_fork(index):
    os.fork()
    waits()


def with_a_pool(index):
    with multiprocessing.get_context(sys.argv[1]).Pool(2):
        waits()


if __name__ == "__main__":
    method, how, count = sys.argv[1:]
    context = multiprocessing.get_context(method)
    children = [context.Process(target=globals()[how], args=(i,)) for i in range(int(count))]
    for child in children:
        child.start()
    for child in children:
        child.join()
