"""How this node does: disks, memory, processes that cannot end or do not answer.

Figures only: what is too little is for whoever asked to say. Nothing here waits for a file
system that does not answer: that it does not is part of the answer.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rankdbg import wire
from rankdbg.logs.patterns import Pattern
from rankdbg.node import gpus, kernel_log, processes
from rankdbg.node.discovery import Process

_PATIENCE = 1.0  # for a file system
# A process is in state D for a moment whenever it reads from a disk, and a zombie until its
# parent has seen to it.
_AGAIN = 0.3
_MOST = 64
_V1, _V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
_UNLIMITED = 1 << 60


def answer(message: wire.Message, ranks: Sequence[Process]) -> dict[str, Any]:
    """To the question `health`."""
    patterns = [Pattern.from_json(pattern) for pattern in message.get("patterns", ())]
    hits, why = [], ""
    try:
        hits = kernel_log.find(patterns, time.time() - float(message.get("within", 0.0)))
    except kernel_log.Unreadable as unreadable:
        why = str(unreadable)
    return {
        **look(ranks, [str(place) for place in message.get("places", ())]),
        "kernel": hits,
        "why_no_kernel": why,
        # The kernel calls processes by the machine's own numbers, also in a container.
        "own_pids": gpus.in_first_namespace(),
    }


def look(ranks: Sequence[Process], places: Iterable[str]) -> dict[str, Any]:
    """`places`: more paths whose disks matter, such as those of logs."""
    living = [process.pid for process in ranks if process.alive]
    return {
        "disks": _disks([*places, *_places_of(living)]),
        "memory": _memory(living),
        "processes": _held(),
    }


# --- disks ------------------------------------------------------------------------------------


def _places_of(pids: Iterable[int]) -> list[str]:
    """Where ranks write without being told to: shared memory, temporary files, where they are."""
    own = [processes.working_directory(pid) for pid in pids]
    return ["/dev/shm", tempfile.gettempdir(), *filter(None, own)]


def _disks(places: Iterable[str]) -> list[dict[str, Any]]:
    """Each file system once, by the first of its places."""
    read, stuck = processes.read_all(dict.fromkeys(places), _disk, _PATIENCE)
    disks = {entry.pop("device"): entry for entry in reversed(read.values())}
    hanging = [{"place": place, "why": "it does not answer"} for place in stuck]
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
    """Of the machine, and of the control groups that limit ranks."""
    machine: dict[str, int] = {}
    for line in _read("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            machine[name] = int(rest.split()[0]) << 10
    groups = {path: limited for path in _groups(pids) if (limited := _group(path))}
    return {
        "size": machine.get("MemTotal", 0),
        "available": machine.get("MemAvailable", 0),
        "groups": list(groups.values())[:_MOST],
    }


def _groups(pids: Iterable[int]) -> list[str]:
    """Directories of control groups, of both versions: a container sees its own as the root."""
    found = [root for root in (_V2, _V1) if os.path.exists(root)]
    for pid in pids:
        for line in _read(f"/proc/{pid}/cgroup").splitlines():
            _, controllers, own = line.split(":", 2)
            root = _V1 if "memory" in controllers.split(",") else "" if controllers else _V2
            while root and own not in ("/", ""):
                found.append(root + own)
                own = os.path.dirname(own)
    return list(dict.fromkeys(found))


def _group(path: str) -> dict[str, Any] | None:
    """None for one that neither limits memory nor has killed for it."""
    old = path.startswith(_V1)
    limit = _number(_read(f"{path}/memory.limit_in_bytes" if old else f"{path}/memory.max"))
    used = _number(_read(f"{path}/memory.usage_in_bytes" if old else f"{path}/memory.current"))
    events = _read(f"{path}/memory.oom_control" if old else f"{path}/memory.events")
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


def _held() -> list[dict[str, Any]]:
    """Those that have ended and are still there, and those that the kernel holds for longer
    than a moment. Of this user: others have their own."""
    first = _not_well()
    if first:
        time.sleep(_AGAIN)
        first = {pid: stat for pid, stat in _not_well().items() if first.get(pid) == stat}
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


def _not_well() -> dict[int, processes.Stat]:
    us = os.geteuid()
    found = {}
    for pid in processes.all_pids():
        stat = processes.read_stat(pid)
        if stat is not None and stat.state in "ZD" and _is_ours(pid, us):
            found[pid] = stat
    return found


def _is_ours(pid: int, us: int) -> bool:
    try:
        return us == 0 or os.stat(f"/proc/{pid}").st_uid == us
    except OSError:
        return False
