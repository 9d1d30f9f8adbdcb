"""Processes and labels from the launcher's tables: Ray's workers and drivers.

A roster question may include them, since only the launcher has them: pids, and for each the
labels that its title and environment do not contain. Then only these processes and their
children are listed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from rankdbg.node.machine import processes
from rankdbg.node.roster.found_processes import Process
from rankdbg.process import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LauncherLabels = Mapping[int, Mapping[str, "Any"]]  # pid -> labels
# Under the pid 0 are those of nodes that are gone, which any process here may share a pid with.
_ELSEWHERE = 1 << 20


def from_message(value: object) -> LauncherLabels | None:
    """From a message, where keys are text. None if there are none."""
    if not isinstance(value, dict):
        return None
    return {int(pid): labels for pid, labels in value.items()}


def call_by_names(found: list[Process], known: LauncherLabels) -> None:
    """Assign the launcher's names to processes without their own."""
    for process in found:
        if process.alive and process.pid in known and "dead" not in known[process.pid]:
            own = {n: v for n, v in process.labels.items() if n != "job" or process.given_job}
            job = known[process.pid].get("job")
            if isinstance(job, str) and job:
                identity.name_job(own, job)
            process.labels = {**known[process.pid], **own}


def add_dead(found: list[Process], known: LauncherLabels) -> None:
    """Processes that the launcher knows to have died keep their number and their reason."""
    there = {process.pid: process for process in found}
    for pid, labels in known.items():
        process = there.get(pid)
        dead = [*labels.get("before", ()), *([labels] if "dead" in labels else [])]
        if process is not None and "dead" in labels and not _is_another(process, labels):
            del dead[-1]  # it is about to end, or its card is still there
            if not process.alive:
                process.labels = {**labels, **process.labels}
        # They have no start time; these numbers tell them apart.
        first = _ELSEWHERE if pid == 0 else 0
        found += [
            Process(each.get("pid", pid), -first - number, 0, False, dict(each), [])
            for number, each in enumerate(dead)
        ]


def known_or_below(found: list[Process], known: LauncherLabels) -> list[Process]:
    """The launcher's processes and their children; dead ones too if the launcher has them, or
    with their job, unless that was started again under its name."""

    known = {pid: labels for pid, labels in known.items() if pid}

    def is_known(process: Process) -> bool:
        labels = known.get(process.pid)
        if labels is not None and not _is_another(process, labels):
            return True
        return any(ancestor.pid in known for ancestor in process.above)

    living = {process.key for process in found if process.alive and is_known(process)}
    began: dict[str, list[float]] = {}  # of each job that is there, since when the launcher has it
    for process in found:
        if process.key in living:
            since = known.get(process.pid, {}).get("job_began", 0) / 1000
            began.setdefault(process.job, []).append(since)

    def is_of_this_run(process: Process) -> bool:
        if process.job not in began:
            return False
        # A driver begins before its job.
        is_driver = process.labels.get("part") == "driver"
        return is_driver or _started(process) >= min(began[process.job])

    def is_listed(process: Process) -> bool:
        if process.alive:
            return process.key in living
        return "dead" in process.labels or is_of_this_run(process)

    return [process for process in found if is_listed(process)]


def _started(process: Process) -> float:
    return time.time() - processes.age(process.start)


def _is_another(process: Process, labels: Mapping[str, Any]) -> bool:
    """Whether a living process has the id of one that ended before it began."""
    ended = labels.get("ended", 0) / 1000
    return process.alive and 0 < ended < time.time() - processes.age(process.start)
