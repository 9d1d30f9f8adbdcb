"""Imported by the .pth file, or by bootstrap/, in every Python that sees RANKDBG=1."""

from __future__ import annotations

import sys

from rankdbg import agent, identity


def is_rankdbg_itself() -> bool:
    """rankdbg's own commands, run from inside a job, are no part of the job."""
    _, form, name = identity.invocation(sys.orig_argv)
    return form != "code" and name.rpartition("/")[2] in ("rankdbg", "rankdbg.node")


if not is_rankdbg_itself():
    agent.start()
