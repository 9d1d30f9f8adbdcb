"""What is known about a process, and what is decided about it."""

from __future__ import annotations

from rankdbg.process import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NamedTuple
else:
    from rankdbg.process.named_tuples import NamedTuple

Place = tuple[str, int]  # the host, and the pid there


class Ancestor(NamedTuple):
    pid: int
    program: str  # the launcher or engine that it runs, else empty (identity.program)


class Member:
    """A process that may belong to a job. (Not a dataclass, as in all modules that a node process
    loads at its start: importing dataclasses takes 10 ms in every pod.)"""

    def __init__(
        self,
        pid: int,
        start: int,
        ppid: int,
        alive: bool,
        labels: dict[str, Any],
        command: list[str],
        host: str = "",
        modules: int = 0,
    ) -> None:
        self.host = host
        self.pid = pid
        self.start = start
        self.ppid = ppid
        self.ppid_inside = ppid  # as its agent knows it: in a container pids differ
        self.alive = alive
        self.labels = labels
        self.command = command
        self.modules = modules
        self.above: tuple[Ancestor, ...] = ()  # its living ancestors, nearest first
        self.made_up_job = ""  # jobs.name_unnamed() sets it
        self.kind = "rank"
        self.number: int | None = None
        self.generation = 1

    @property
    def key(self) -> tuple[int, int]:
        return self.pid, self.start

    @property
    def place(self) -> Place:
        return self.host, self.pid

    @property
    def places_above(self) -> list[Place]:
        return [(self.host, ancestor.pid) for ancestor in self.above]

    @property
    def given_job(self) -> str:
        """The name that its launcher, scheduler or user gave its job. An agent that knows none makes
        one up, without knowing the other processes."""
        job = str(self.labels.get("job", ""))
        return "" if identity.is_made_up(job, self.command, self.ppid_inside) else job

    @property
    def job(self) -> str:
        return self.given_job or self.made_up_job

    def whole(self, label: str) -> int | None:
        """Labels come from files and other versions: they may contain anything."""
        value = self.labels.get(label)
        return value if type(value) is int else None

    def text(self, label: str) -> str:
        return str(self.labels.get(label) or "")


def by_place(members: list[Any]) -> dict[Place, Any]:
    """Living processes last: the pid of a dead one may be reused."""
    return {member.place: member for member in sorted(members, key=lambda m: m.alive)}
