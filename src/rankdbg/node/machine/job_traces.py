"""Identifies processes of a job in kernel messages: control groups, users, and container ids.
Inside a container its own control group is called `/`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from rankdbg.node.machine import processes

_FIRST_NAMESPACES = {"cgroup": 0xEFFFFFFB, "user": 0xEFFFFFFD}  # as the kernel has them
_JOB_OF_SLURM = re.compile(r"^(.*/job_\d+)(?=/|$)")
# Paths of containers and pods, from which files are mounted into each of them.
_CONTAINER = re.compile(r"/(?:containers|sandboxes|overlay-containers)/([0-9a-f]{64})/")
_POD = re.compile(r"/pods/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/")


def describe(pids: Sequence[int]) -> dict[str, Any]:
    """`pids`: of living ranks. Unknown values are empty."""
    return {
        "cgroups": sorted(_groups(pids)) if _sees_all("cgroup") else [],
        "containers": sorted({name for pid in [*pids, os.getpid()] for name in _containers(pid)}),
        "uids": sorted(_users(pids)) if _sees_all("user") else [],
    }


def _sees_all(kind: str) -> bool:
    """Whether names in this namespace are those of the kernel."""
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino == _FIRST_NAMESPACES[kind]
    except OSError:
        return False


def _groups(pids: Sequence[int]) -> set[str]:
    """Memory control groups; steps and tasks of a Slurm job count as the job."""
    found = {path for pid in pids for path in _memory_groups(pid)}
    # A node process started by srun belongs to the job, even if all ranks are dead.
    found |= {path for path in _memory_groups(os.getpid()) if _JOB_OF_SLURM.match(path)}
    return {job[1] if (job := _JOB_OF_SLURM.match(path)) else path for path in found}


def _memory_groups(pid: int) -> list[str]:
    """The group of the v1 memory controller if there is one, otherwise that of v2."""
    lines = [line.split(":", 2) for line in _read(f"/proc/{pid}/cgroup").splitlines()]
    paths = {controller: path for _, names, path in lines for controller in names.split(",")}
    path = paths.get("memory", paths.get(""))
    return [path] if path else []


def _containers(pid: int) -> set[str]:
    mounts = _read(f"/proc/{pid}/mountinfo")
    return {*_CONTAINER.findall(mounts), *_POD.findall(mounts)}


def _users(pids: Sequence[int]) -> set[int]:
    return {user for pid in pids if (user := processes.owner(pid)) is not None}


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""
