"""The command that starts a job, ready to be executed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """What to execute; the user's input has been checked."""

    program: str
    words: list[str]
    environment: dict[str, str]
