"""Which of the processes of a machine a session or a question is about."""

from __future__ import annotations

from collections.abc import Mapping

from rankdbg.node.machine import processes
from rankdbg.node.roster.found_processes import Process
from rankdbg.process import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# Jobs whose names become known after the card was written (agent/card.py).
_NAMED_LATE = ("ray-", "monarch-")


def in_scope(found: list[Process], scope: Mapping[str, Any]) -> list[Process]:
    """Processes in the scope of the session: a node may be shared with other Slurm jobs. Labels
    from the process itself count, also after its death."""
    wanted: Mapping[str, str] = scope.get("environment", {})
    if wanted:
        said = {p.key: p.labels["environment"] for p in found if "environment" in p.labels}
        fits = {key for key, has in said.items() if wanted.items() <= has.items()}
        others = {p.pid: p.key for p in found if p.alive and p.key not in said}
        fits |= {others[pid] for pid in _with_environment(list(others), wanted)}
        found = [process for process in found if process.key in fits]
    if scope.get("engine"):
        jobs = {p.job for p in found if p.labels.get("engine") == scope["engine"]}
        found = [process for process in found if process.job in jobs]
    if scope.get("job"):
        for process in found:
            process.labels = {**process.labels, "job": scope["job"]}
    return found


def may_belong(found: list[Process], job: str | None, scope: Mapping[str, Any]) -> list[Process]:
    """Processes of this job by their cards and environments; all if no job is given.

    Agents of other jobs are not asked: a process that holds the GIL would delay an answer that
    does not concern it. The job name changes only together with the card, except for names that
    Ray and Monarch assign when a program connects.
    """
    if job is None:
        return found
    named_late = job.startswith(_NAMED_LATE)
    # This gives them the name of the scope.
    here = [process.copy() for process in found] if scope.get("job") else found
    here = in_scope(here, scope)
    keys = {p.key for p in here if p.job == job or (named_late and _may_be_renamed(p))}
    return [process for process in found if process.key in keys]


def _may_be_renamed(process: Process) -> bool:
    return not process.given_job or identity.is_scheduled(process.given_job)


def name_job(found: list[Process], name: str) -> None:
    """Assign this job name to processes without one: a pod is part of one job, whose name its
    launcher and ranks do not know. It is around jobs that have another name."""
    for process in found:
        if not process.given_job:
            process.labels = {**process.labels, "job": name}
        elif process.given_job != name:
            process.labels = {"outer": name, **process.labels}


def _with_environment(pids: list[int], wanted: Mapping[str, str]) -> set[int]:
    """If it cannot be read, that of an ancestor is used."""
    fits: set[int] = set()
    telling = {pid: pid for pid in pids}
    while telling:
        environments, _ = processes.read_all(set(telling.values()), processes.environment)
        undecided: dict[int, int] = {}
        for pid, teller in telling.items():
            has = environments.get(teller, {})
            if wanted.items() <= has.items():
                fits.add(pid)
            elif not wanted.keys() & has.keys() and (parent := processes.parent(teller)) > 1:
                undecided[pid] = parent
        telling = undecided
    return fits
