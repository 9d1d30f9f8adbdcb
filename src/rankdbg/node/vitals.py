"""What the kernel knows of processes that may hang: states, waits, counters, children.

Counters are totals since a process began: who asks twice knows what has happened between.
Nothing here stops a process, and nothing waits for one.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from rankdbg import masking
from rankdbg.node import processes, syscalls

_MOST_CHILDREN = 32
_LONGEST_COMMAND = 80


def look(keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], dict[str, Any]]:
    """By (pid, start); one that is gone is left out."""
    children = _families()
    found = {}
    for key in keys:
        stat = processes.read_stat(key[0])
        if stat is not None and stat.start == key[1]:
            found[key] = _vitals(stat, children.get(key[0], []))
    return found


def _vitals(stat: processes.Stat, children: list[processes.Stat]) -> dict[str, Any]:
    pid = stat.pid
    # A process in state D may hold its memory map's lock; what else is running needs no words.
    call, on = syscalls.waits_in(pid) if stat.state == "S" else ("", "")
    main = processes.read_thread(pid, pid)
    return {
        "at": time.monotonic(),
        "state": stat.state,
        "why": processes.explain_state(stat),
        "wchan": processes.waiting_in(pid),
        "call": call,
        "on": on,
        "age": processes.age(stat.start),
        "cpu": main.cpu_seconds,
        "ready": main.ready_seconds,
        "switches": main.switches,
        "written": processes.bytes_written(pid),
        "children": [_child(child) for child in children[:_MOST_CHILDREN]],
    }


def _child(stat: processes.Stat) -> dict[str, Any]:
    command = "" if stat.state in "ZXD" else _command(stat.pid)
    return {
        "pid": stat.pid,
        "name": stat.name,
        "state": stat.state,
        "command": command[:_LONGEST_COMMAND],
        "wchan": processes.waiting_in(stat.pid),
    }


def _command(pid: int) -> str:
    try:
        return " ".join(masking.mask_command(processes.command(pid)))
    except OSError:
        return ""


def _families() -> dict[int, list[processes.Stat]]:
    families: dict[int, list[processes.Stat]] = defaultdict(list)
    for pid in processes.all_pids():
        stat = processes.read_stat(pid)
        # Our own probes are nobody's children who matters.
        if stat is not None and stat.ppid != os.getpid():
            families[stat.ppid].append(stat)
    return families
