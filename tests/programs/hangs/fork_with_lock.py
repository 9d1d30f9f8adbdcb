"""Rank 2 forks while a thread holds a lock: in the child no thread will ever release it."""

import multiprocessing
import threading
import time

import training

lock, held = threading.Lock(), threading.Event()


def write_log():
    with lock:
        held.set()
        time.sleep(1)


def evaluate():
    with lock:
        print("never")


training.begin()
if training.RANK == 2:
    threading.Thread(target=write_log).start()
    held.wait()
    child = multiprocessing.get_context("fork").Process(target=evaluate)
    child.start()
    child.join()
training.step()
