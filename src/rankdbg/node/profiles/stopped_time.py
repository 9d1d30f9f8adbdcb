"""The share of time for which processes are stopped by a debugger.

The debugger itself does not know: on a busy machine most of the time is waiting, for a CPU, a
disk, or for many threads to stop. So the processes are sampled at random times.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable

from rankdbg.node.machine import processes

# Seconds between two looks, on average; at random, not to keep step with what is looked at.
BETWEEN_LOOKS = 0.03


class Standstill:
    """Samples until end() is called."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._seen = dict.fromkeys(pids, 0)
        self.looks = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="standstill", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(random.uniform(0, 2 * BETWEEN_LOOKS)):
            self.looks += 1
            for pid in self._seen:
                stat = processes.read_stat(pid)
                self._seen[pid] += stat is not None and stat.state == "t"

    def end(self) -> dict[int, float]:
        """The share of each process."""
        self._over.set()
        self._thread.join()
        return {pid: seen / max(1, self.looks) for pid, seen in self._seen.items()}
