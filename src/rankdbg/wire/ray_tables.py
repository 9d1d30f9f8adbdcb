"""What Ray's tables say about a job: tasks, actors, placement groups, nodes.

clusters/ray/ray_tables.py reads them. Times are seconds; ids are Ray's, in hex.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

RAY_TABLES = "ray_tables"  # the name under which a snapshot has them
Resources = dict[str, float]


@dataclass(frozen=True)
class RayTask:
    """One that has not ended."""

    id: str
    name: str
    kind: str = ""  # normal_task, actor_creation_task, actor_task, driver_task
    job: str = ""
    parent: str = ""  # the task that has called it
    actor: str = ""
    group: str = ""  # placement group
    state: str = ""
    attempt: int = 0
    age: float = 0.0  # since it was called
    ran: float | None = None  # since it began to run
    needs: Resources = field(default_factory=dict)
    node: str = ""
    pid: int = 0
    worker: str = ""

    @property
    def runs(self) -> bool:
        return self.state.startswith("RUNNING") and self.pid > 0


@dataclass(frozen=True)
class RayFunction:
    """The tasks of one function that have ended."""

    name: str
    finished: int = 0
    failed: int = 0
    longest: float | None = None  # seconds that one of them ran


@dataclass(frozen=True)
class RayActor:
    id: str
    name: str = ""
    role: str = ""
    job: str = ""
    state: str = ""
    restarts: int = 0
    most_restarts: int = 0  # -1: no limit
    needs: Resources = field(default_factory=dict)
    group: str = ""
    node: str = ""
    pid: int = 0
    died: str = ""  # why, the last time


@dataclass(frozen=True)
class RayGroup:
    """A placement group."""

    id: str
    name: str = ""
    job: str = ""
    state: str = ""
    stage: str = ""  # of its scheduling: NO_RESOURCES, INFEASIBLE
    strategy: str = ""
    bundles: tuple[Resources, ...] = ()
    age: float = 0.0


@dataclass(frozen=True)
class RayNode:
    id: str
    name: str = ""  # as the session names it
    alive: bool = True
    total: Resources = field(default_factory=dict)
    free: Resources = field(default_factory=dict)


@dataclass(frozen=True)
class RayMover:
    """A worker of Ray's own that writes spilled objects to storage (`spill`) or reads them
    (`restore`)."""

    node: str
    pid: int
    kind: str = ""


@dataclass(frozen=True)
class RayPull:
    """An object that a node gets from another one, or from storage that all can read."""

    object: str
    url: str = ""  # if it is known to be spilled
    node: str = ""  # that has it on its disk
    size: int = 0
    retries: int = 0

    @property
    def file(self) -> str:
        return self.url.partition("?")[0].removeprefix("file://")


@dataclass(frozen=True)
class RayFileWait:
    """A thread of a raylet in a system call on a file of spilled objects."""

    thread: int
    call: str
    file: str


@dataclass(frozen=True)
class Raylet:
    node: str
    pid: int
    pulls: tuple[RayPull, ...] = ()
    waits: tuple[RayFileWait, ...] = ()
    read: int = 0  # bytes, since it began


@dataclass(frozen=True)
class Raylets:
    raylets: tuple[Raylet, ...] = ()


@dataclass(frozen=True)
class RayTables:
    at: float = 0.0
    tasks: tuple[RayTask, ...] = ()
    functions: tuple[RayFunction, ...] = ()
    actors: tuple[RayActor, ...] = ()
    groups: tuple[RayGroup, ...] = ()
    nodes: tuple[RayNode, ...] = ()
    movers: tuple[RayMover, ...] = ()
    growth: Resources = field(default_factory=dict)  # with all that the autoscaler may add

    @cached_property
    def task(self) -> dict[str, RayTask]:
        return {task.id: task for task in self.tasks}

    @cached_property
    def function(self) -> dict[str, RayFunction]:
        return {function.name: function for function in self.functions}

    @cached_property
    def actor(self) -> dict[str, RayActor]:
        return {actor.id: actor for actor in self.actors}

    @cached_property
    def creation(self) -> dict[str, RayTask]:
        """An actor -> the task that makes it, if that has not ended."""
        return {task.actor: task for task in self.tasks if task.kind == "actor_creation_task"}

    @cached_property
    def group(self) -> dict[str, RayGroup]:
        return {group.id: group for group in self.groups}

    @cached_property
    def host(self) -> dict[str, str]:
        """The id of a node -> its name."""
        return {node.id: node.name for node in self.nodes}

    @cached_property
    def running(self) -> dict[tuple[str, int], list[RayTask]]:
        """Host and pid -> the tasks that run there; an actor with threads or coroutines runs
        several."""
        found: dict[tuple[str, int], list[RayTask]] = {}
        for task in self.tasks:
            if task.runs:
                found.setdefault((self.host.get(task.node, ""), task.pid), []).append(task)
        return found

    @cached_property
    def called_by(self) -> dict[str, list[RayTask]]:
        """A task -> those that it has called and that have not ended."""
        found: dict[str, list[RayTask]] = {}
        for task in self.tasks:
            found.setdefault(task.parent, []).append(task)
        return found
