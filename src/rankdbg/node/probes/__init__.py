"""Ways of looking into a process from outside, one file each, found by name.

A probe runs another program on a process that may hang, so each one runs in a child
that can be killed, with a deadline, and says beforehand why it cannot be used.
"""

from __future__ import annotations

from typing import Any, Protocol


class ProbeFailed(Exception):
    """Why nothing could be read, for the user."""


class Probe(Protocol):
    def available(self, pid: int) -> str | None:
        """Why this probe cannot be used on this process, or None."""

    def probe(self, pid: int, *, seconds: float, **options: Any) -> Any:
        """What it sees. Raises ProbeFailed."""
