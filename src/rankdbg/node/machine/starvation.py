"""Processes that are ready to run and get no CPU: what they do not answer says nothing about them."""

from __future__ import annotations

import time

from rankdbg.node.machine import processes

# Of the time since the last look: a thread has waited for a CPU for at least this share, while all
# of them together ran for less than that one. A thread that keeps the GIL does run.
READY_SHARE, CPU_SHARE = 0.5, 0.2


class Starvation:
    """Compares two looks at a process."""

    def __init__(self) -> None:
        self._looks: dict[int, tuple[float, dict[int, processes.Thread]]] = {}

    def is_starved(self, pid: int) -> bool:
        """Whether it got no CPU since the last look; False at the first."""
        begun, before = self._looks.get(pid, (0.0, {}))
        now = {thread: processes.read_thread(pid, thread) for thread in processes.threads(pid)}
        self._looks[pid] = time.monotonic(), now
        elapsed = time.monotonic() - begun
        both = [(before[thread], now[thread]) for thread in now.keys() & before.keys()]
        ready = max((late.ready_seconds - early.ready_seconds for early, late in both), default=0.0)
        cpu = sum(late.cpu_seconds - early.cpu_seconds for early, late in both)
        return ready > READY_SHARE * elapsed and cpu < CPU_SHARE * elapsed
