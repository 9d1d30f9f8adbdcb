"""Imported by the .pth file, or by bootstrap/, in every Python that sees RANKDBG=1."""

from __future__ import annotations

import sys


def is_rankdbg_itself() -> bool:
    """rankdbg's own commands, run from inside a job, are no part of the job."""
    words = getattr(sys, "orig_argv", [])
    runs = [word.rpartition("/")[2] for word in words[:3]]
    return "rankdbg" in runs or "rankdbg.node" in runs


if not is_rankdbg_itself():
    try:
        from rankdbg import agent

        agent.start()
    except Exception as error:  # whatever it is, the program goes on
        sys.stderr.write(f"rankdbg: no agent in this process: {error!r}\n")
