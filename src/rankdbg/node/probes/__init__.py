"""Ways of looking into a process from outside, one file each, found by name.

A probe runs another program on a process that may hang, so each one runs in a child
that can be killed, with a deadline, and says beforehand why it cannot be used. Those that
stop the process to look (all but py-spy) do so under the rules of node/attaching.py.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple, Protocol

from rankdbg.errors import NO_PTRACE
from rankdbg.node import processes


class ProbeFailed(Exception):
    """Why nothing could be read, for the user."""


class Probe(Protocol):
    def available(self, pid: int) -> str | None:
        """Why this probe cannot be used on this process, or None."""

    def probe(
        self, pid: int, *, seconds: float, all_threads: bool, with_locals: bool
    ) -> dict[str, Any]:
        """What it sees: `threads`, each with `name`, `main` and `frames`; and where it can
        tell, `gil` (who holds it), `waits_for_gil`, `kernels`. Raises ProbeFailed."""


class Kind(NamedTuple):
    module: str
    tool: str
    at_once: int  # a debugger that has read the symbols of torch takes half a gigabyte
    longest: float  # seconds


# As questions name them.
PROBES = {
    "py-spy": Kind("pyspy", "py-spy", 8, 60.0),
    "native": Kind("pystack", "pystack", 8, 20.0),
    "gdb": Kind("gdb", "gdb", 4, 60.0),
    "cuda": Kind("cudagdb", "cuda-gdb", 2, 60.0),
}


def find_probe(engine: str) -> Probe:
    module: Any = importlib.import_module(f"rankdbg.node.probes.{PROBES[engine].module}")
    probe: Probe = module
    return probe


def failure(tool: str, complaint: str, pid: int) -> ProbeFailed:
    """What a tool said on its stderr, for a user who does not know the tool."""
    if processes.read_stat(pid) is None:
        return ProbeFailed(f"process {pid} is gone")
    if "ermission denied" in complaint or "Operation not permitted" in complaint:
        why, hint = processes.why_no_ptrace(pid)
        return ProbeFailed(f"{NO_PTRACE}: {why}" + (f"; {hint}" if hint else ""))
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    cause = lines[-1] if lines else "no reason given"
    return ProbeFailed(f"{tool} cannot read process {pid}: {cause.removeprefix('Error: ')}")
