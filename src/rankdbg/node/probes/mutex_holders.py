"""The threads that hold mutexes, as Python names them, and the lines that they are in."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from rankdbg.node.probes import named_threads, pyspy
from rankdbg.process.user_code import innermost_user_frame

_MOST_PROCESSES = 4  # py-spy needs some 30 ms for each
_LONGEST = 2.0  # seconds


def name(found: Iterable[dict[str, Any]], deadline: float) -> None:
    """Adds that to what wait_owners.py tells of threads. Those of C keep what they have."""
    holders: dict[int, list[dict[str, Any]]] = {}
    for told in found:
        threads = {each["native"]: each for each in told.get("threads", ())}
        waiting = [*told["processes"], *threads.values()]
        for mutex in (each["mutex"] for each in waiting if each["mutex"]):
            if (holder := threads.get(mutex["holder"])) is not None:
                holders.setdefault(holder["pid"], []).append(holder)
    for pid in [*holders][:_MOST_PROCESSES]:
        seconds = min(_LONGEST, deadline - time.monotonic())
        known = {t.get("os_thread_id"): t for t in named_threads.ask_pyspy(pid, seconds, False)}
        for holder in holders[pid]:
            if (thread := known.get(holder["native"])) is not None and thread["frames"]:
                files = [frame["filename"] for frame in thread["frames"]]
                at = thread["frames"][innermost_user_frame(files)]
                holder["name"] = pyspy.name(thread, pid)
                holder["where"] = [at["name"], at["filename"], at["line"]]
