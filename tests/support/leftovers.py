"""What a file of tests leaves behind in the process that runs it, to the cost of all that follow."""

from __future__ import annotations

import threading
import time
from pathlib import Path

LOOKS = 20  # in a second
MOSTLY = 0.7  # of the time: another process may have the processor for a while


def computing_threads() -> list[str]:
    """The threads that have taken the processor for a whole second, this one apart. If there are
    none it takes no time: a thread that did not compute between two looks is not looked at again."""
    suspects = {
        thread.native_id: thread.name
        for thread in threading.enumerate()
        if thread is not threading.current_thread() and thread.native_id
    }
    used: dict[int, float] = {}
    begun = {native: _cpu_seconds(native) for native in suspects}
    for look in range(1, LOOKS + 1):
        if not suspects:
            return []
        time.sleep(1 / LOOKS)
        used = {native: _cpu_seconds(native) - begun[native] for native in suspects}
        suspects = {n: name for n, name in suspects.items() if used[n] > MOSTLY * look / LOOKS}
    return sorted(suspects.values())


def _cpu_seconds(native: int) -> float:
    try:
        return int(Path(f"/proc/self/task/{native}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):  # it has ended, or the kernel does not count
        return 0.0
