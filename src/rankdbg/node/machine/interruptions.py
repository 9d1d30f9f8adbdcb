"""For how long threads waited for a processor because another thread had taken theirs.

The kernel counts one time for all threads that are ready to run. On a busy machine most of that time
may be of threads that wake up, have next to nothing to do and wait again: 60 idle threads that wake up
ten times a second were ready for up to 2.6 seconds in each second (measured). A thread that computes does
not give its processor back; it is interrupted.
"""

from __future__ import annotations

import threading

from rankdbg.node.machine import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from rankdbg.process.named_tuples import NamedTuple

_Key = tuple[int, int]  # pid, start


class _Counted(NamedTuple):
    thread: processes.Thread = processes.Thread()
    woken: int = 0
    interrupted: float = 0.0

    def then(self, thread: processes.Thread, woken: int) -> _Counted:
        """With what has been added since. How long each single wait took is not known: those
        after an interruption have their share by number."""
        scheduled = thread.switches - self.thread.switches
        interruptions = max(0, scheduled - (woken - self.woken))
        share = min(1.0, interruptions / scheduled) if scheduled > 0 else 0.0
        ready = max(0.0, thread.ready_seconds - self.thread.ready_seconds)
        return _Counted(thread, woken, self.interrupted + share * ready)


class Interruptions:
    """Remembers the counters of each thread, because only what two looks differ by tells what a
    thread does now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: dict[_Key, dict[int, _Counted]] = {}

    def seconds(self, stat: processes.Stat) -> dict[int, float]:
        """By thread: a total, of which the part before the first look is an estimate."""
        pid = stat.pid
        with self._lock:
            before = self._counted.get((pid, stat.start), {})
            now = {
                thread: before.get(thread, _Counted()).then(
                    processes.read_thread(pid, thread), processes.times_woken(pid, thread)
                )
                for thread in processes.threads(pid)
            }
            self._counted[pid, stat.start] = now
        return {thread: counted.interrupted for thread, counted in now.items()}

    def forget_ended(self) -> None:
        with self._lock:
            for key in [key for key in self._counted if not processes.is_alive(*key)]:
                del self._counted[key]
