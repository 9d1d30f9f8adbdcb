"""The options of `rankdbg dap`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AttachSettings:
    ranks: str = "all"
    job: str | None = None
    most: int = 16  # sessions at a time: an editor with 512 of them is of no use
    lockstep: bool = False
    stay: bool = False  # stopped ranks stay so when the editor leaves
    tensor_summary: bool = True
    single: bool = False  # an editor's session is that of the one rank that is wanted
    token: str = ""  # what an editor must know that comes by a port
    purpose: str = ""  # all of this, and where the job runs: to know a server that does the same
