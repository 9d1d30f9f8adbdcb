"""Whose processes and files these are: agents of other users are not asked."""

from __future__ import annotations

import os
import pwd

from rankdbg.node.machine import processes


def other_users() -> list[str]:
    """Other users with an agent directory and Python processes."""
    running = {_owner(f"/proc/{pid}") for pid in processes.all_pids()} - {os.geteuid(), -1}
    return sorted(user_name(uid) for uid in running if uid == _owner(f"/tmp/rankdbg-{uid}"))


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def why_not_asked(pid: int) -> str:
    """Agents of other users are not asked, not even by root: a process that pretends to be a rank
    would receive the questions and could forge answers."""
    owner = processes.owner(pid)
    if owner is None or owner == os.geteuid():
        return ""
    name = user_name(owner)
    return f"it runs as {name}; to use its agent, run rankdbg as {name}"


def _owner(path: str) -> int:
    try:
        return os.stat(path).st_uid
    except OSError:
        return -1
