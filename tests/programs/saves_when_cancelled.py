"""Trains until it gets SIGTERM, and then needs a while to save its state."""

import signal
import sys
import time

import rankdbg


def save(*_: object) -> None:
    for _moment in range(60):
        time.sleep(0.1)
    sys.exit(0)


def train() -> None:
    step = 0
    while True:
        rankdbg.progress(step)
        time.sleep(0.01)
        step += 1


signal.signal(signal.SIGTERM, save)
train()
