"""Counts steps, and then does what its argument says: hang, go on, or end."""

import os
import sys
import threading
import time
from pathlib import Path

import rankdbg

lock = threading.Lock()


def train(steps: int) -> None:
    for step in range(steps):
        rankdbg.progress(step)
        time.sleep(0.01)


def train_until_all_are_here() -> None:
    """All hang at once: who starts late is not the only one that moves."""
    Path(f"here-{os.environ.get('RANK', '0')}").touch()
    step = 50
    while len([*Path().glob("here-*")]) < int(os.environ.get("WORLD_SIZE", "1")):
        rankdbg.progress(step)
        time.sleep(0.01)
        step += 1


def wait_for_a_lock_that_nobody_releases() -> None:
    lock.acquire()
    lock.acquire()


train(50)
print("fifty steps", flush=True)
match sys.argv[1]:
    case "hang":
        train_until_all_are_here()
        wait_for_a_lock_that_nobody_releases()
    case "fail":
        sys.exit(7)
    case "go-on":
        train(100_000)
