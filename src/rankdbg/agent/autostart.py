"""Imported by the .pth file, or by bootstrap/, in every Python that sees RANKDBG=1."""

from __future__ import annotations

import os
import sys

from rankdbg import agent
from rankdbg.process import identity

# With one of these variables, this process may have to run under nsys.
PROFILES = ("RANKDBG_NSYS_WORKERS", "RANKDBG_NSYS_STEPS", "NRL_NSYS_WORKER_PATTERNS")


def is_rankdbg_itself() -> bool:
    """rankdbg's own commands, when run inside a job, are not part of the job."""
    _, form, name = identity.invocation(sys.orig_argv)
    return form != "code" and name.rpartition("/")[2] in ("rankdbg", "rankdbg.node")


if not is_rankdbg_itself():
    if any(os.environ.get(name) for name in PROFILES):
        from rankdbg.agent.nsys import under_nsys

        under_nsys.begin()
    agent.start()
    if os.environ.get("RANKDBG_WAIT_FOR_EDITOR"):
        from rankdbg.agent.editor import editor_wait

        editor_wait.begin()
