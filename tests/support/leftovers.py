"""What a file of tests leaves behind in the process that runs it, to the cost of all that follow."""

from __future__ import annotations

import threading
import time
from pathlib import Path

LOOKS = 4  # in a second
MOSTLY = 0.7  # of the time


def computing_threads() -> list[str]:
    """The threads that compute for a whole second, or would if they had a processor, this one apart.
    A thread that has rested is not looked at again."""
    suspects = {
        thread.native_id: thread.name
        for thread in threading.enumerate()
        if thread is not threading.current_thread() and thread.native_id
    }
    begun = {native: _runnable_seconds(native) for native in suspects}
    started = time.monotonic()
    for _ in range(LOOKS):
        if not suspects:
            return []
        time.sleep(1 / LOOKS)
        least = MOSTLY * (time.monotonic() - started)
        suspects = {
            native: name
            for native, name in suspects.items()
            if _runnable_seconds(native) - begun[native] > least
        }
    return sorted(suspects.values())


def _runnable_seconds(native: int) -> float:
    """For how long it has had a processor, or has waited for one."""
    try:
        running, waiting = Path(f"/proc/self/task/{native}/schedstat").read_text().split()[:2]
    except (OSError, ValueError):  # it has ended, or the kernel does not count
        return 0.0
    return (int(running) + int(waiting)) / 1e9
