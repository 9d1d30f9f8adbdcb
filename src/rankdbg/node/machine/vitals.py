"""Kernel data of processes that may hang: states, waits, counters, children.

Counters are totals since the start of a process: two answers show what happened in between.
Nothing here stops a process or waits for one.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

from rankdbg.node.machine import processes, syscalls
from rankdbg.node.machine.interruptions import Interruptions, Ready
from rankdbg.node.machine.resting import RestingTimes
from rankdbg.process import masking

_MOST_CHILDREN = 32
_MOST_BELOW = 256
_FORK_SERVER = "multiprocessing.forkserver"
# Counters that were read within this time (seconds) are of one moment.
_AT_ONCE, _TRIES = 0.005, 5

_Families = dict[int, list[processes.Stat]]  # children by parent
_Below = list[processes.Stat]  # descendants


def look(
    keys: Iterable[tuple[int, int]], interruptions: Interruptions, ranks: Container[int] = ()
) -> dict[tuple[int, int], dict[str, Any]]:
    """By (pid, start); processes that are gone are omitted. `ranks`: pids that are no rank's
    children."""
    families, resting = _families(), RestingTimes()
    interruptions.forget_ended()
    found = {}
    for key in keys:
        stat = processes.read_stat(key[0])
        if stat is not None and stat.start == key[1]:
            found[key] = {
                **_vitals(stat, families, interruptions),
                "asleep": resting.seconds(stat.pid),
                "children": _children(stat, families, interruptions, ranks),
            }
    return found


def _vitals(
    stat: processes.Stat, families: _Families, interruptions: Interruptions
) -> dict[str, Any]:
    pid = stat.pid
    # A process in state D may hold the lock of its memory map; running ones need no command.
    wait = syscalls.waits_in(pid) if stat.state == "S" else syscalls.SyscallWait()
    below = _below(pid, families)[:_MOST_BELOW]
    main, others = _ready(stat, below, interruptions)
    counters = _counters(stat)
    return {
        "at": counters.at,
        "state": stat.state,
        "why": processes.explain_state(stat),
        "wchan": processes.waiting_in(pid),
        "call": wait.call,
        "on": wait.on,
        "timer": wait.timer,
        "age": processes.age(stat.start),
        "cpu": counters.main.cpu_seconds,
        "ready": counters.main.ready_seconds,
        "others": _others_cpu(counters.stat, counters.main, below),
        "others_ready": others.interrupted,
        "starved": main.starved,
        "others_starved": others.starved,
        "runnable": main.runnable + others.runnable,
        "switches": counters.main.switches,
        "woken": counters.woken,
        "read": counters.read,
        "written": counters.written,
    }


class _Counters(NamedTuple):
    at: float
    stat: processes.Stat
    main: processes.Thread
    woken: int  # the main thread
    read: int
    written: int


def _counters(stat: processes.Stat) -> _Counters:
    """Read at one time. On a busy machine this process may lose its processor in between; what is
    counted until it has one again would seem to have happened in no time."""
    pid = stat.pid
    for _ in range(_TRIES):
        begun = time.monotonic()
        stat = processes.read_stat(pid) or stat
        main, woken = processes.read_thread(pid, pid), processes.times_woken(pid, pid)
        counters = _Counters(time.monotonic(), stat, main, woken, *processes.bytes_moved(pid))
        if time.monotonic() - begun < _AT_ONCE:
            break
    return counters


def _children(
    stat: processes.Stat,
    families: _Families,
    interruptions: Interruptions,
    ranks: Container[int],
) -> list[dict[str, Any]]:
    """All processes below one, the nearest first; not those of ranks that it has started."""
    found: list[dict[str, Any]] = []
    above = [stat]
    while above and len(found) < _MOST_CHILDREN:
        below = [
            (child, parent)
            for parent in above
            for child in families.get(parent.pid, ())
            if child.pid not in ranks
        ]
        found += [_child(*pair, families, interruptions) for pair in below]
        above = [child for child, _ in below]
    return found[:_MOST_CHILDREN]


def _child(
    stat: processes.Stat,
    parent: processes.Stat,
    families: _Families,
    interruptions: Interruptions,
) -> dict[str, Any]:
    command, above = _command(stat), _command(parent)
    return {
        **_vitals(stat, families, interruptions),
        "forked": _is_forked(command, above),
        "pid": stat.pid,
        "start": stat.start,
        "parent": parent.pid,
        "name": stat.name,
        "command": processes.short_command(command),
    }


def _is_forked(command: Sequence[str], above: Sequence[str]) -> bool:
    """From a process with threads, whose locks are copied. A fork has the command line of its parent;
    a new program has its own. multiprocessing's fork server is one without threads."""
    if not (any(command) and any(above)):
        return True
    return command == above and not any(_FORK_SERVER in word for word in above)


def _others_cpu(stat: processes.Stat, main: processes.Thread, below: _Below) -> float:
    """CPU seconds of other threads and of descendants, including those that have ended."""
    own = max(0.0, stat.cpu_seconds - main.cpu_seconds)
    return own + stat.reaped_seconds + sum(s.cpu_seconds + s.reaped_seconds for s in below)


def _ready(
    stat: processes.Stat, below: _Below, interruptions: Interruptions
) -> tuple[Ready, Ready]:
    """The main thread; and all others, and the descendants."""
    main, others = interruptions.look(stat)
    for each in below:
        its_main, its_others = interruptions.look(each)
        others = others.and_of(its_main).and_of(its_others)
    return main, others


def _below(pid: int, families: _Families) -> _Below:
    found = list(families.get(pid, ()))
    for stat in found:  # grows
        found += families.get(stat.pid, ())
    return found


def _command(stat: processes.Stat) -> list[str]:
    """Empty if it cannot be read without blocking."""
    if stat.state in "ZXD":
        return []
    try:
        return masking.mask_command(processes.command(stat.pid))
    except OSError:
        return []


def _families() -> _Families:
    families: _Families = defaultdict(list)
    for pid in processes.all_pids():
        stat = processes.read_stat(pid)
        # Without rankdbg's own probes.
        if stat is None or stat.ppid == os.getpid():
            continue
        if not processes.is_left_by_debugger(stat):
            families[stat.ppid].append(stat)
    return families
