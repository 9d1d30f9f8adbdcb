"""The driver of Ray's workers waits at its end for the reports that their nsys still writes.

A container or a Slurm step ends with its first process, which often is the driver, and then all
that still runs there is killed.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

from rankdbg import nsys
from rankdbg.agent import nsys_report, under_nsys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOOK_EVERY = 0.1


def wait() -> None:
    """For those on this node, if this process has had any. Its own connection to Ray is closed
    by now, and so its workers are about to end."""
    try:
        if _has_profiled_workers():
            wait_until_written()
    except KeyboardInterrupt:  # somebody has had enough
        pass


def wait_until_written() -> None:
    seconds = nsys_report.wait_seconds()
    deadline = monotonic() + seconds
    writing = find_writing()
    if writing:
        _say(f"waits up to {seconds:g} s for nsys's reports of {', '.join(sorted(writing))}")
    while writing and monotonic() < deadline:
        sleep(LOOK_EVERY)
        writing = find_writing()
    if writing:
        names = ", ".join(sorted(writing))
        _say(f"nsys has not ended yet: {names}; RANKDBG_NSYS_WAIT=SECONDS waits longer")


def _has_profiled_workers() -> bool:
    module: Any = sys.modules.get("rankdbg.ray")
    ray: Any = sys.modules.get("ray")
    try:
        return bool(module and ray and module.any_is_profiled() and not ray.is_initialized())
    except Exception:  # of a Ray that is half gone
        return False


def find_writing() -> set[str]:
    """The names of workers whose nsys is there. What runs under one has its variable too."""
    job = os.environ.get("RANKDBG_JOB", "")
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                content = file.read()
        except OSError:  # it has ended, or is somebody else's
            continue
        variables = dict(
            entry.partition("=")[::2] for entry in os.fsdecode(content).split("\0") if entry
        )
        worker = variables.get(under_nsys.WORKER)
        if worker and nsys.UNDER_NSYS not in variables and variables.get("RANKDBG_JOB", "") == job:
            found.add(worker)
    return found


def _say(line: str) -> None:
    try:
        sys.stderr.write(f"rankdbg: {line}\n")
        sys.stderr.flush()
    except Exception:  # closed, or None
        pass
