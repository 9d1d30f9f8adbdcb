"""What the user has asked `rankdbg dap` for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    ranks: str = "all"
    job: str | None = None
    most: int = 16  # sessions at a time: an editor with 512 of them is of no use
    lockstep: bool = False
    stay: bool = False  # stopped ranks stay so when the editor leaves
    tensor_summary: bool = True
    token: str = ""  # what an editor must know whose user cannot be told
