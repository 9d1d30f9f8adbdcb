"""Node health: disks, memory, processes that cannot end or do not respond.

Figures only: the client decides what is too little. Nothing here waits for a file system that
does not respond: this is reported in the answer.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rankdbg.logs.patterns import Pattern
from rankdbg.node.machine import gpus, job_traces, kernel_log, processes
from rankdbg.node.roster.found_processes import Process
from rankdbg.wire.node_questions import ReadHealth

_PATIENCE = 1.0  # for a file system
# A process is in state D for a moment whenever it reads from a disk, and a zombie until its
# parent reaps it.
_AGAIN = 0.3
_MOST = 64
_V1, _V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
_UNLIMITED = 1 << 60


def answer(question: ReadHealth, ranks: Sequence[Process]) -> dict[str, Any]:
    patterns = [Pattern.from_json(pattern) for pattern in question.patterns]
    hits, why = [], ""
    try:
        if patterns:  # who reads figures alone, every few seconds, waits for no journal
            hits = kernel_log.find(patterns, time.time() - question.within)
    except kernel_log.KernelLogUnreadable as unreadable:
        why = str(unreadable)
    told = look(ranks, question.places)
    if not any(process.alive for process in ranks):
        # Without a rank it is unknown which of the ended processes belong to the job.
        told["processes"] = [held for held in told["processes"] if held["state"] != "Z"]
    return {
        **told,
        "kernel": hits,
        "why_no_kernel": why,
        # The kernel uses pids of the host, also for processes in a container.
        "own_pids": gpus.in_first_namespace(),
        "job": job_traces.describe([process.pid for process in ranks if process.alive]),
    }


def look(ranks: Sequence[Process], places: Iterable[str]) -> dict[str, Any]:
    """`places`: more paths whose disks matter, such as those of logs."""
    living = [process.pid for process in ranks if process.alive]
    return {
        "disks": _disks([*places, *_places_of(living)]),
        "memory": _memory(living),
        "processes": _held(living),
        "load": os.getloadavg()[0],
        "processors": os.cpu_count() or 0,
    }


# --- disks ------------------------------------------------------------------------------------


def _places_of(pids: Iterable[int]) -> list[str]:
    """Where ranks write by default: shared memory, temporary files, working directories."""
    own = [processes.working_directory(pid) for pid in pids]
    return ["/dev/shm", tempfile.gettempdir(), *filter(None, own)]


def _disks(places: Iterable[str]) -> list[dict[str, Any]]:
    """Each file system once, by the first of its places."""
    read, stuck = processes.read_all(dict.fromkeys(places), _disk, _PATIENCE)
    disks = {entry.pop("device"): entry for entry in reversed(read.values())}
    hanging = [{"place": place, "why": "no response"} for place in stuck]
    return [*reversed(disks.values()), *hanging][:_MOST]


def _disk(place: str) -> dict[str, Any]:
    told = os.statvfs(place)
    size = told.f_frsize
    return {
        "device": os.stat(place).st_dev,
        "place": place,
        "size": told.f_blocks * size,
        "free": told.f_bavail * size,
        "files": told.f_files,
        "files_free": told.f_favail,
        "why": "",
    }


# --- memory -----------------------------------------------------------------------------------


def _memory(pids: Iterable[int]) -> dict[str, Any]:
    """Memory of the machine, and of the control groups that limit ranks."""
    machine: dict[str, int] = {}
    for line in _read("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            machine[name] = int(rest.split()[0]) << 10
    groups = {path: found for path, own in _groups(pids).items() if (found := _group(path, own))}
    return {
        "size": machine.get("MemTotal", 0),
        "available": machine.get("MemAvailable", 0),
        "groups": list(groups.values())[:_MOST],
    }


def _groups(pids: Iterable[int]) -> dict[str, bool]:
    """Directories of control groups, v1 and v2: a container sees its own as the root. True for the
    groups of ranks; parent groups are shared with others."""
    found = {root: True for root in (_V2, _V1) if os.path.exists(root)}
    for pid in pids:
        for line in _read(f"/proc/{pid}/cgroup").splitlines():
            _, controllers, own = line.split(":", 2)
            root = _V1 if "memory" in controllers.split(",") else "" if controllers else _V2
            is_theirs = True
            while root and own not in ("/", ""):
                found[root + own] = found.get(root + own, False) or is_theirs
                own, is_theirs = os.path.dirname(own), False
    return found


def _group(path: str, own: bool) -> dict[str, Any] | None:
    """None for a group without a memory limit or OOM kills. Kills in child groups count for a
    group that is the ranks' `own`."""
    old = path.startswith(_V1)
    limit = _number(_read(f"{path}/memory.limit_in_bytes" if old else f"{path}/memory.max"))
    used = _number(_read(f"{path}/memory.usage_in_bytes" if old else f"{path}/memory.current"))
    counts = "memory.oom_control" if old else "memory.events" if own else "memory.events.local"
    events = _read(f"{path}/{counts}")
    told = dict(line.split(maxsplit=1) for line in events.splitlines())
    kills = _number(told.get("oom_kill", "")) or 0
    if limit is not None and limit >= _UNLIMITED:
        limit = None
    if limit is None and not kills:
        return None
    group = path.removeprefix(_V1 if old else _V2) or "/"
    return {"group": group, "limit": limit, "used": used, "kills": kills}


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


# --- processes --------------------------------------------------------------------------------


def _held(ranks: Sequence[int]) -> list[dict[str, Any]]:
    """Zombies among the relatives of ranks; and processes that stay in state D. Of this user
    only."""
    first = _not_well()
    if first:
        time.sleep(_AGAIN)
        family = _Family(ranks)
        first = {
            pid: stat
            for pid, stat in _not_well().items()
            if first.get(pid) == stat and (stat.state != "Z" or family.has(stat.ppid))
        }
    return [
        {
            "pid": stat.pid,
            "name": stat.name,
            "state": stat.state,
            "parent": stat.ppid,
            "why": processes.explain_state(stat),
        }
        for stat in list(first.values())[:_MOST]
    ]


class _Family:
    """Ranks, their ancestors and their descendants. Without any rank, all processes."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks = {*ranks}
        self._above = {pid for rank in ranks for pid in self._line(rank)}

    def has(self, pid: int) -> bool:
        if not self._ranks or pid in self._above:
            return True
        return not self._ranks.isdisjoint(self._line(pid))

    def _line(self, pid: int) -> set[int]:
        """A process and its ancestors, without process 1."""
        found: set[int] = set()
        while pid > 1 and pid not in found:
            found.add(pid)
            pid = processes.parent(pid)
        return found


def _not_well() -> dict[int, processes.Stat]:
    us = os.geteuid()
    found = {}
    for pid in processes.all_pids():
        stat = processes.read_stat(pid)
        if stat is None or stat.state not in "ZD" or processes.is_left_by_debugger(stat):
            continue
        if _is_ours(pid, us):
            found[pid] = stat
    return found


def _is_ours(pid: int, us: int) -> bool:
    try:
        return us == 0 or os.stat(f"/proc/{pid}").st_uid == us
    except OSError:
        return False
