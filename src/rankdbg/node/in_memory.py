"""Runs programs from memory if their directory is mounted noexec."""

from __future__ import annotations

import os


def runnable(path: str) -> str | None:
    """The path of the program, or of a copy in memory that exists as long as this process.
    None: it cannot be run (the kernel may forbid programs in memory, too)."""
    try:
        if not os.statvfs(path).f_flag & os.ST_NOEXEC:
            return path
        descriptor = os.memfd_create(os.path.basename(path))
        with open(path, "rb") as source, open(descriptor, "wb", closefd=False) as copy:
            copy.write(source.read())
        # By our pid: a child does not have this descriptor.
        place = f"/proc/{os.getpid()}/fd/{descriptor}"
        return place if os.access(place, os.X_OK) else None
    except OSError:
        return None
