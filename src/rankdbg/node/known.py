"""Whom a launcher knows on this node, and what it calls them: Ray's workers and drivers.

A question for the roster may bring that along, since only the launcher's own tables have it:
process ids, and for each the labels that its title and environment do not show. Then only
these processes and their children are of interest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rankdbg import identity
from rankdbg.node.discovery import Process

Known = Mapping[int, Mapping[str, Any]]  # pid -> labels


def from_message(value: object) -> Known | None:
    """As it came over the wire, where keys are text. None: nobody said anything."""
    if not isinstance(value, dict):
        return None
    return {int(pid): labels for pid, labels in value.items()}


def call_by_names(found: list[Process], known: Known) -> None:
    """Give the processes the launcher's names, where they have none of their own."""
    for process in found:
        if process.alive and process.pid in known:
            labels = {**known[process.pid], **process.labels}
            if process.job == identity.made_up_job(process.command, process.ppid):
                labels["job"] = known[process.pid].get("job", process.job)
            process.labels = labels


def known_or_below(
    found: list[Process], known: Known, parent: Callable[[int], int]
) -> list[Process]:
    """Those that the launcher knows and their children; the dead go with their job."""

    def is_below(pid: int) -> bool:
        seen: set[int] = set()
        while pid > 1 and pid not in seen and pid not in known:
            seen.add(pid)
            pid = parent(pid)
        return pid in known

    living = {process.key for process in found if process.alive and is_below(process.pid)}
    jobs = {process.job for process in found if process.key in living}
    return [p for p in found if (p.key in living if p.alive else p.job in jobs)]
