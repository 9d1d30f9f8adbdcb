"""Processes that are ready to run and get no CPU: what they do not answer says nothing about them."""

from __future__ import annotations

import time

from rankdbg.node.machine import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from rankdbg.process.named_tuples import NamedTuple

# Of the time since the last look: a thread has waited for a CPU for at least this share, while all
# of them together ran for less than that one. A thread that keeps the GIL does run.
READY_SHARE, CPU_SHARE = 0.5, 0.2


class _Look(NamedTuple):
    moment: float
    threads: dict[int, processes.Thread]
    ready: set[int]  # threads that are ready to run, or run


class Starvation:
    """Compares two looks at a process."""

    def __init__(self) -> None:
        self._looks: dict[int, _Look] = {}

    def is_starved(self, pid: int) -> bool:
        """Whether it got no CPU since the last look; False at the first."""
        before, now = self._looks.get(pid), _look(pid)
        self._looks[pid] = now
        if before is None:
            return False
        both = now.threads.keys() & before.threads.keys()
        elapsed = now.moment - before.moment
        cpu = sum(now.threads[t].cpu_seconds - before.threads[t].cpu_seconds for t in both)
        if cpu > CPU_SHARE * elapsed:
            return False
        # The kernel counts the time that a thread has waited when it runs again, not before.
        waited = max(
            (now.threads[t].ready_seconds - before.threads[t].ready_seconds for t in both),
            default=0.0,
        )
        return waited > READY_SHARE * elapsed or bool(now.ready & before.ready)


def _look(pid: int) -> _Look:
    moment, threads = time.monotonic(), processes.threads(pid)
    stats = {thread: processes.read_stat(thread) for thread in threads}
    ready = {thread for thread, stat in stats.items() if stat is not None and stat.state == "R"}
    return _Look(moment, {thread: processes.read_thread(pid, thread) for thread in threads}, ready)
