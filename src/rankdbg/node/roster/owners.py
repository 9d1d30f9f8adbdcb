"""Whose a job is: a process of another user that gives itself the name of one's job is not part of it.

Every user can set RANKDBG_JOB, and root sees the processes of all users. What one's own job has
started as another user (`su`, a container) belongs to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from rankdbg.node.machine import processes
from rankdbg.node.roster import users
from rankdbg.roster.members import Member


def set_apart(members: Iterable[Member]) -> None:
    """Name the jobs of other users after their owner, where they have the name of a job of ours."""
    if os.geteuid() != 0:  # the environments of other users' processes cannot be read
        return
    named = [member for member in members if member.given_job and member.alive]
    owners = {member.pid: processes.owner(member.pid) for member in named}
    jobs = {member.given_job for member in named if owners[member.pid] == os.geteuid()}
    for member in named:
        owner, job = owners[member.pid], member.given_job
        if owner in (None, os.geteuid()) or job not in jobs or _is_started_by_us(member, job):
            continue
        user = users.user_name(owner).replace(" ", "")
        member.labels = {**member.labels, "job": f"{job}-{user}"}


def _is_started_by_us(member: Member, job: str) -> bool:
    """Whether a process above it is ours, and has the name of that job."""
    return any(
        processes.owner(ancestor.pid) == os.geteuid()
        and processes.environment(ancestor.pid).get("RANKDBG_JOB") == job
        for ancestor in member.above
    )
