"""python waits_for_fork.py KIND: two ranks. Rank 1 waits for a child that waits for what no fork has
copied; rank 0 waits in a barrier. Each prints a line when it is about to wait."""

import multiprocessing
import os
import sys
import threading


def barrier():
    """By its name a collective."""
    threading.Event().wait()


def event(lock):
    threading.Event().wait()


def lock_of_processes(lock):
    lock.acquire()


def main():
    start, _, what = sys.argv[1].partition(" ")
    context = multiprocessing.get_context(start)
    if os.environ["RANK"] == "0":
        print("ready", flush=True)
        return barrier()
    lock = context.Lock()
    lock.acquire()
    child = context.Process(target={"event": event, "lock": lock_of_processes}[what], args=(lock,))
    child.start()
    print("ready", flush=True)
    child.join()


if __name__ == "__main__":
    main()
