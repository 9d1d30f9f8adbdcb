"""The processes of jobs on this machine, as cards and /proc show them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rankdbg.node.machine import processes
from rankdbg.roster.members import Member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Process(Member):
    """A process of this machine that may belong to a job."""

    def __init__(
        self,
        pid: int,
        start: int,
        ppid: int,
        alive: bool,
        labels: dict[str, Any],
        command: list[str],
        python: str = "",
        socket: str = "",
        no_agent_because: str = "",
        modules: int = 0,
        files: tuple[str, ...] = (),
        outputs: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(pid, start, ppid, alive, labels, command, modules=modules)
        self.python = python
        self.socket = socket  # the path of its agent's socket; empty without an agent
        self.no_agent_because = no_agent_because
        self.files = files
        self.outputs = outputs or {}  # the files of its stdout and stderr, by its card
        self.where: list[Any] | None = None
        self.step: int | None = None
        self.stops: list[dict[str, Any]] = []

    def copy(self) -> Process:
        other = Process.__new__(Process)
        other.__dict__.update(self.__dict__)
        return other


class FoundProcesses:
    """`directories`: of agents, and whether each is usable; `carded`: living processes with a
    card; `pids`: all processes that were examined; `contained`: the pids here of processes that were
    seen in containers, by namespace, pid and start inside."""

    def __init__(
        self,
        notes: Iterable[str] = (),
        directories: Mapping[str, bool] | None = None,
        pids: Collection[int] = (),
        contained: Mapping[tuple[str, int, int], int] | None = None,
    ) -> None:
        self.processes: list[Process] = []
        self.notes = [*notes]
        self.directories = {**(directories or {})}
        self.carded: set[int] = set()
        self.pids = {*pids}
        self.contained = {**(contained or {})}
        self.containers: set[tuple[int, int]] = set()  # whose dead processes were looked for

    def copy(self) -> FoundProcesses:
        other = FoundProcesses(self.notes, self.directories, self.pids, self.contained)
        other.processes, other.carded = [*self.processes], {*self.carded}
        return other


def runs(process: Process) -> bool:
    """Neither gone nor a zombie."""
    stat = processes.read_stat(process.pid)
    return stat is not None and stat.start == process.start and stat.state not in "ZX"
