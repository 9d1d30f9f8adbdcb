"""Counts steps, and then does what its argument says: hang, go on, note signals, or end."""

import os
import signal
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


def note(number: int, _: object) -> None:
    """A file for each signal, and in it whether evidence had been collected by then."""
    collected = Path("backtraces/report.json").exists()
    Path(f"partial-{number}").write_text("collected" if collected else "not collected")
    Path(f"partial-{number}").rename(f"got-{signal.Signals(number).name}")
    if number == signal.SIGTERM:
        sys.exit(5)


train(50)
print("fifty steps", flush=True)
match sys.argv[1]:
    case "hang":
        train_until_all_are_here()
        wait_for_a_lock_that_nobody_releases()
    case "fail":
        sys.exit(7)
    case "handle-signals":
        for name in ("SIGUSR1", "SIGUSR2", "SIGTERM"):
            signal.signal(signal.Signals[name], note)
        Path("ready").touch()
        train(100_000)
    case "go-on":
        train(100_000)
