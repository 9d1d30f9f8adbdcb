"""The open descriptors of a process, as /proc shows them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator


def path(pid: int, number: int | str) -> str:
    """Leads to the open file itself, also to one that is deleted or in another container."""
    return f"/proc/{pid}/fd/{number}"


def target(pid: int, number: int | str) -> str:
    """A path, or `pipe:[1234]`, `socket:[1234]`; empty if it is closed or cannot be seen."""
    try:
        return os.readlink(path(pid, number))
    except OSError:
        return ""


def targets(pid: int) -> Iterator[tuple[str, str]]:
    """Every number with its target. Raises OSError if they cannot be seen."""
    for number in os.listdir(f"/proc/{pid}/fd"):
        if found := target(pid, number):  # otherwise closed a moment ago
            yield number, found


def info(pid: int, number: int | str) -> list[tuple[str, str]]:
    """Fields and values in the kernel's description of it; none if that cannot be read."""
    try:
        with open(f"/proc/{pid}/fdinfo/{number}") as file:
            rows = [line.split() for line in file]
    except OSError:
        return []
    return [(row[0].rstrip(":"), row[1]) for row in rows if len(row) > 1]


def flags(pid: int, number: int | str) -> int | None:
    """As it was opened (os.O_WRONLY, os.O_APPEND, ...); None if that cannot be read."""
    found = dict(info(pid, number)).get("flags")
    return int(found, 8) if found else None


def is_fifo(place: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(place).st_mode)
    except OSError:
        return False
