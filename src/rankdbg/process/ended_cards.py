"""The cards of processes that have ended, while the logs that they name are there: by these a job is
known after its death.

An agent leaves its card when its program exits, and a node that of a process which was killed.
Imports little of the standard library: the agent imports this module at its start.
"""

from __future__ import annotations

import os

FOLDER = "ended"  # in the agents' directory
# When there are so many, the older half is removed.
MOST = 1000


def keep(card: str, start: int) -> bool:
    """Move a card there, of a process that started at this tick. False if that is not possible."""
    directory, name = os.path.split(card)
    folder = os.path.join(directory, FOLDER)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        _make_room(folder)
        os.rename(card, os.path.join(folder, f"{name.removesuffix('.json')}-{start}.json"))
    except OSError:
        return False
    return True


def _make_room(folder: str) -> None:
    names = os.listdir(folder)
    if len(names) < MOST:
        return
    for name in sorted(names, key=lambda name: _ended(f"{folder}/{name}"))[: len(names) // 2]:
        try:
            os.unlink(f"{folder}/{name}")
        except OSError:  # another process removes it
            pass


def _ended(path: str) -> float:
    """When it was moved there."""
    try:
        return os.lstat(path).st_ctime
    except OSError:
        return 0.0
