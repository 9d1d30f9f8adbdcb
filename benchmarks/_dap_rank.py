"""A rank of dap_attach.py: `steps` step by step, with pauses; `calls` a loop of calls, whose speed
is in `speed`. With PORT it does what people do without rankdbg: debugpy.listen()."""

from __future__ import annotations

import os
import sys
import threading
import time

CALLS = 100_000
speed = 0.0


def call(value: int) -> int:
    return value + 1


def step(number: int) -> int:
    return number + 1  # the breakpoint


def steps() -> None:
    number = 0
    while True:
        number = step(number)
        time.sleep(0.005)


def steps_beside_others() -> None:
    """As ranks of torch are: with threads that sleep."""
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    steps()


def calls() -> None:
    global speed
    while True:
        begun, value = time.thread_time(), 0
        for _ in range(CALLS):
            value = call(value)
        speed = CALLS / (time.thread_time() - begun)


if os.environ.get("PORT"):
    import debugpy

    debugpy.listen(("127.0.0.1", int(os.environ["PORT"]) + int(os.environ["RANK"])))
globals()[sys.argv[1]]()
