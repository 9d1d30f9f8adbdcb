"""Cards and /proc -> all processes of jobs on this machine."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from rankdbg.node.machine import processes
from rankdbg.node.roster import containers, first_ranks
from rankdbg.node.roster.carded_processes import add_carded, just_started
from rankdbg.node.roster.found_processes import FoundProcesses
from rankdbg.node.roster.without_agents import python_processes, without_agent
from rankdbg.process import identity, rendezvous


def find_processes(
    others: Collection[int] = (), before: FoundProcesses | None = None
) -> FoundProcesses:
    """Processes with an agent by their cards, those without by /proc. `others` are always
    included."""
    found = FoundProcesses(contained=before.contained if before else None)
    _list_directories([rendezvous.directory()], found)
    _look_at_new(found, others)
    return found


def find_more(
    before: FoundProcesses, others: Collection[int], changed: Collection[str]
) -> FoundProcesses:
    """The same at lower cost: only new processes in /proc, and only cards in directories that have
    `changed`."""
    found = FoundProcesses(before.notes, before.directories, before.pids, before.contained)
    for process in before.processes:
        if not process.files or os.path.dirname(process.files[0]) not in changed:
            found.processes.append(process)
            if process.files and process.alive:
                found.carded.add(process.pid)
    if changed:
        # A process whose card was removed may be exiting.
        found.pids = before.pids - (before.carded - found.carded)
        _list_directories(changed, found)
        with_card = {process.key for process in found.processes if process.files}
        found.processes = [p for p in found.processes if p.files or p.key not in with_card]
    _look_at_new(found, others)
    return found


def _list_directories(directories: Iterable[str], found: FoundProcesses) -> None:
    for directory in directories:
        found.directories[directory] = add_carded(directory, found)


def _look_at_new(found: FoundProcesses, others: Collection[int]) -> None:
    new = python_processes(found)
    for pid, (_, environ) in new.items():
        is_ours = processes.owner(pid) == os.geteuid()
        directory = _own_directory(pid, environ) if is_ours else ""
        if directory and directory not in found.directories:
            _list_directories([directory], found)
        if pid not in found.carded:
            usable = [directory for directory, is_usable in found.directories.items() if is_usable]
            process = just_started(pid, usable if is_ours else ()) or without_agent(
                pid, *new[pid], pid in others
            )
            if process is not None:
                found.processes.append(process)
    _add_starters(found, new)
    _add_first_ranks(found)


def _own_directory(pid: int, environ: Mapping[str, str]) -> str:
    """The agents' directory of a job that was started with its own, or in a container."""
    named = environ.get("RANKDBG_DIR", "")
    return containers.directory_of(pid, environ) or (os.path.abspath(named) if named else "")


def _add_starters(
    found: FoundProcesses, new: Mapping[int, tuple[list[str], dict[str, str]]]
) -> None:
    """Processes without numbers that have started processes with numbers: launchers, and a first
    rank that starts its own script again for the others."""
    listed = {process.pid for process in found.processes}
    numbered = [p for p in found.processes if p.pid in new and p.whole("rank") is not None]
    stats: dict[int, processes.Stat | None] = {}
    for process in numbered:
        for pid in processes.ancestors(process.ppid, process.start, stats):
            if pid in listed or pid not in new or not _may_start(new[pid][0], process.command):
                continue
            starter = without_agent(pid, *new[pid], wanted=True)
            if starter is not None:
                found.processes.append(starter)
                listed.add(pid)


def _add_first_ranks(found: FoundProcesses) -> None:
    listed = {process.pid for process in found.processes if process.alive}
    for pid in first_ranks.find(found.processes).keys() - listed:
        if processes.is_python(pid):
            command, environ = processes.command(pid), processes.environment(pid)
            process = without_agent(pid, command, environ, wanted=True)
            found.processes += [process] if process is not None else []


def _may_start(command: list[str], rank: list[str]) -> bool:
    return identity.runs_again(rank, command) or identity.known_kind(command) == "launcher"
