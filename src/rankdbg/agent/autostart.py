"""Imported by the .pth file, or by bootstrap/, in every Python that sees RANKDBG=1."""

from __future__ import annotations

import os
import sys

from rankdbg import agent, identity

# One of these, and this process may have to run under nsys.
PROFILES = ("RANKDBG_NSYS_WORKERS", "RANKDBG_NSYS_STEPS", "NRL_NSYS_WORKER_PATTERNS")


def is_rankdbg_itself() -> bool:
    """rankdbg's own commands, run from inside a job, are no part of the job."""
    _, form, name = identity.invocation(sys.orig_argv)
    return form != "code" and name.rpartition("/")[2] in ("rankdbg", "rankdbg.node")


if not is_rankdbg_itself():
    if any(os.environ.get(name) for name in PROFILES):
        from rankdbg.agent import under_nsys

        under_nsys.begin()
    agent.start()
