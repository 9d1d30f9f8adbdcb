"""The processes above those of jobs: launchers, shells, daemons."""

from __future__ import annotations

from collections.abc import Iterable

from rankdbg.node.machine import processes
from rankdbg.node.roster.found_processes import Process
from rankdbg.process import identity
from rankdbg.roster.members import Ancestor


def look_above(found: Iterable[Process]) -> None:
    """Set `above` of each."""
    found = [*found]
    stats: dict[int, processes.Stat | None] = {}
    chains = {id(p): [*processes.ancestors(p.ppid, p.start, stats)] for p in found}
    pids = {pid for chain in chains.values() for pid in chain}
    commands, _ = processes.read_all(sorted(pids), processes.command) if pids else ({}, [])
    ancestors = {pid: Ancestor(pid, identity.program(commands.get(pid) or [])) for pid in pids}
    for process in found:
        process.above = tuple(ancestors[pid] for pid in chains[id(process)])
