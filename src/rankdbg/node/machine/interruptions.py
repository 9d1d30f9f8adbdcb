"""For how long threads waited for a processor because another thread had taken theirs, or got none.

The kernel counts one time for all threads that are ready to run. On a busy machine most of that time
may be of threads that wake up, have next to nothing to do and wait again: 60 idle threads that wake up
ten times a second were ready for up to 2.6 seconds in each second (measured). A thread that computes does
not give its processor back; it is interrupted.

One that has woken up and gets no processor for most of a second is starved, whatever it was about to do.
While it waits the kernel counts nothing for it: not before it runs again.
"""

from __future__ import annotations

import threading
import time
from functools import reduce

from rankdbg.node.machine import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from rankdbg.process.named_tuples import NamedTuple

_Key = tuple[int, int]  # pid, start
# A thread is starved that was ready for more than this share of the time, and ran for less than that
# one: one that shares a processor with many others gets more. In a shorter time than this (seconds)
# many a thread waits.
READY_SHARE, CPU_SHARE, LEAST_SECONDS = 0.5, 0.05, 0.4


class _Look(NamedTuple):
    at: float = 0.0
    thread: processes.Thread = processes.Thread()
    ready: bool = False  # it runs, or could run


class _Counted(NamedTuple):
    look: _Look = _Look()  # the last one
    woken: int = 0
    interrupted: float = 0.0
    since: _Look = _Look()  # up to which it is known whether it was starved
    starved: float = 0.0  # seconds, until then

    def then(self, look: _Look, woken: int) -> _Counted:
        """With what has been added since. How long each single wait took is not known: those
        after an interruption have their share by number."""
        scheduled = look.thread.switches - self.look.thread.switches
        interruptions = max(0, scheduled - (woken - self.woken))
        share = min(1.0, interruptions / scheduled) if scheduled > 0 else 0.0
        ready = max(0.0, look.thread.ready_seconds - self.look.thread.ready_seconds)
        interrupted = self.interrupted + share * ready
        if not self.since.at:
            return _Counted(look, woken, interrupted, look)
        passed = look.at - self.since.at
        if passed < LEAST_SECONDS:
            return _Counted(look, woken, interrupted, self.since, self.starved)
        starved = self.starved + passed if _is_starved(self.since, look) else 0.0
        return _Counted(look, woken, interrupted, look, starved)


def _is_starved(before: _Look, now: _Look) -> bool:
    passed = now.at - before.at
    if now.thread.cpu_seconds - before.thread.cpu_seconds > CPU_SHARE * passed:
        return False
    if now.thread.switches == before.thread.switches:
        return before.ready and now.ready
    return now.thread.ready_seconds - before.thread.ready_seconds > READY_SHARE * passed


class Ready(NamedTuple):
    """Threads, and for how many seconds."""

    interrupted: float = 0.0  # would have run, uninterrupted; before the first look, an estimate
    starved: float = 0.0  # that one of them which has been without a processor for longest
    runnable: int = 0  # threads

    def and_of(self, other: Ready) -> Ready:
        return Ready(
            self.interrupted + other.interrupted,
            max(self.starved, other.starved),
            self.runnable + other.runnable,
        )


class Interruptions:
    """Remembers the counters of each thread, because only what two looks differ by tells what a
    thread does now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: dict[_Key, dict[int, _Counted]] = {}

    def look(self, stat: processes.Stat) -> tuple[Ready, Ready]:
        """The main thread, and all others together."""
        pid = stat.pid
        with self._lock:
            before = self._counted.get((pid, stat.start), {})
            now = {
                thread: _look_at(pid, thread, before.get(thread, _Counted()))
                for thread in processes.threads(pid)
            }
            self._counted[pid, stat.start] = now
        ready = {
            thread: Ready(each.interrupted, each.starved, int(each.look.ready))
            for thread, each in now.items()
        }
        main = ready.pop(pid, Ready())
        return main, reduce(Ready.and_of, ready.values(), Ready())

    def forget_ended(self) -> None:
        with self._lock:
            for key in [key for key in self._counted if not processes.is_alive(*key)]:
                del self._counted[key]


def _look_at(pid: int, thread: int, before: _Counted) -> _Counted:
    counters = processes.read_thread(pid, thread)
    woken, ready = processes.times_woken_and_ready(pid, thread)
    return before.then(_Look(time.monotonic(), counters, ready), woken)
