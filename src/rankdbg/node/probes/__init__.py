"""Ways to inspect a process from outside, one module each, found by name.

A probe runs another program on a process that may hang, so each one runs in a child
that can be killed, with a deadline, and reports in advance why it cannot be used. Probes
that stop the process (all but py-spy) follow the rules of node/probes/attaching.py.
"""

from __future__ import annotations

import sys

from rankdbg.errors import NO_PTRACE
from rankdbg.node import offers, programs
from rankdbg.node.machine import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NamedTuple, Protocol

    class Probe(Protocol):
        def available(self, pid: int) -> str | None:
            """Why this probe cannot be used on this process, or None."""

        def probe(
            self, pid: int, *, seconds: float, all_threads: bool, with_locals: bool
        ) -> dict[str, Any]:
            """What it sees: `threads`, each with `name`, `main` and `frames`, the innermost first, as
            [function, file, line]; and where it can tell, `gil` (the thread that holds it),
            `waits_for_gil`, `kernels`. Raises ProbeFailed."""

else:
    from rankdbg.process.named_tuples import NamedTuple


class ProbeFailed(Exception):
    """Why nothing could be read, for the user."""


class ProbeKind(NamedTuple):
    module: str
    tool: str
    at_once: int  # a debugger that has read the symbols of torch takes half a gigabyte
    longest: float  # seconds


# As questions name them.
PROBES = {
    "py-spy": ProbeKind("pyspy", "py-spy", 8, 60.0),
    "native": ProbeKind("pystack", "pystack", 8, 20.0),
    "gdb": ProbeKind("gdb", "gdb", 4, 60.0),
    "cuda": ProbeKind("cudagdb", "cuda-gdb", 2, 60.0),
}


# Other packages add modules like these, where the node's Python has them installed. A module may
# say AT_ONCE (processes) and LONGEST (seconds).
ENTRY_POINTS = "rankdbg.probes"


def find_probe(engine: str) -> tuple[Probe, ProbeKind]:
    """Raises ProbeFailed if there is no such probe here, or it cannot be loaded."""
    if engine != "py-spy":
        offers.need_rest()
    kind = PROBES.get(engine)
    place = f"rankdbg.node.probes.{kind.module}" if kind else _added(engine)
    try:
        __import__(place)
        module: Any = sys.modules[place]
    except Exception as error:  # of another package
        raise ProbeFailed(f"the probe {engine} cannot be loaded: {error}") from None
    if kind is None:
        limits = getattr(module, "AT_ONCE", 4), getattr(module, "LONGEST", 20.0)
        kind = ProbeKind(place, engine, *limits)
    probe: Probe = module
    return probe, kind


def tool_name(engine: str) -> str:
    return PROBES[engine].tool if engine in PROBES else engine


def at_once(engine: str) -> int:
    """How many processes may be inspected at a time."""
    try:
        return find_probe(engine)[1].at_once
    except ProbeFailed:  # py-spy is used instead
        return PROBES["py-spy"].at_once


def _added(engine: str) -> str:
    from importlib import metadata  # 20 ms, which a node's start does not need

    programs.find_packages()

    added = {entry.name: entry.value for entry in metadata.entry_points(group=ENTRY_POINTS)}
    if engine not in added:
        names = ", ".join([*PROBES, *sorted(added)])
        raise ProbeFailed(f"no probe {engine} on this node; there are: {names}")
    return added[engine]


def failure(tool: str, complaint: str, pid: int) -> ProbeFailed:
    """Explains the stderr output of a tool to users."""
    if processes.read_stat(pid) is None:
        return ProbeFailed(f"process {pid} is gone")
    if "ermission denied" in complaint or "Operation not permitted" in complaint:
        why, hint = processes.why_no_ptrace(pid)
        return ProbeFailed(f"{NO_PTRACE}: {why}" + (f"; {hint}" if hint else ""))
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    cause = lines[-1] if lines else "no reason given"
    return ProbeFailed(f"{tool} cannot read process {pid}: {cause.removeprefix('Error: ')}")
