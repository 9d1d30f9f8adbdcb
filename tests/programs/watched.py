"""Counts steps, and then does what its argument says: hang, go on, or end."""

import sys
import threading
import time

import rankdbg

lock = threading.Lock()


def train(steps: int) -> None:
    for step in range(steps):
        rankdbg.progress(step)
        time.sleep(0.01)


def wait_for_a_lock_that_nobody_releases() -> None:
    lock.acquire()
    lock.acquire()


train(50)
print("fifty steps", flush=True)
match sys.argv[1]:
    case "hang":
        wait_for_a_lock_that_nobody_releases()
    case "fail":
        sys.exit(7)
    case "go-on":
        train(100_000)
