"""The nouns of rankdbg: plain values, frozen, without any input or output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar, Union

V = TypeVar("V")

State = Literal["running", "stopped", "blocked", "zombie", "gone", "no agent", "exiting"]
Kind = Literal["rank", "launcher", "helper", "child"]

# What every rank can be selected by; the dimensions of a mesh have other names.
LABELS = ("rank", "pid", "role", "host", "state", "job", "actor", "step", "het", "gen", "thread")


class Frame(NamedTuple):
    """One line of a stack. A tuple, because stacks are hashed by the million."""

    function: str
    file: str
    line: int


class ProcessKey(NamedTuple):
    """What a rank is. Its number and coordinates are only labels to select it by."""

    host: str
    pid: int
    start: int  # clock ticks after boot, field 22 of /proc/PID/stat


@dataclass(frozen=True)
class Rank:
    """A process of a job, as the roster knows it."""

    process: ProcessKey
    job: str
    number: int | None = None
    kind: Kind = "rank"
    world: int | None = None
    local_rank: int | None = None
    coordinates: Mapping[str, int] = field(default_factory=dict)
    role: str = ""
    names: Mapping[str, str] = field(default_factory=dict)  # its launcher's: actor, worker, step
    generation: int = 1  # of its job, role and number: 2 after a restart
    state: State = "running"
    detail: str = ""  # why it is in that state: "state D in rpc_wait_bit_killable"
    where: Frame | None = None
    step: int | None = None  # as rankdbg.progress() was told
    agent: bool = False
    command: tuple[str, ...] = ()
    python: str = ""

    @property
    def host(self) -> str:
        return self.process.host

    @property
    def pid(self) -> int:
        return self.process.pid


def unknown_rank(number: int, like: Rank) -> Rank:
    """A rank that no process has taken, or none that the roster knows."""
    names = {name: like.names[name] for name in ("step", "het") if name in like.names}
    process = ProcessKey("", 0, number)
    return Rank(process, like.job, number, role=like.role, names=names, state="gone")


def missing_ranks(members: Iterable[Rank]) -> tuple[Rank, ...]:
    """Those that a job of this size should have and no process is: in each role by itself."""
    roles: dict[tuple[str, str, str], list[Rank]] = {}
    for rank in members:
        key = rank.role, rank.names.get("step", ""), rank.names.get("het", "")
        roles.setdefault(key, []).append(rank)
    return tuple(rank for same in roles.values() for rank in _missing_of_role(same))


def _missing_of_role(members: Sequence[Rank]) -> list[Rank]:
    worlds = {rank.world for rank in members if rank.world}
    numbers = {rank.number for rank in members}
    if len(worlds) != 1 or None in numbers:
        return []
    return [unknown_rank(n, members[0]) for n in range(worlds.pop()) if n not in numbers]


def actor_names(rank: Rank) -> tuple[str, ...]:
    """What a launcher calls its actor or actors: Ray's name and id, Monarch's names."""
    names = rank.names
    if "actor" in names or "actors" in names or "actor_id" in names:
        told = (names.get("actor", ""), names.get("actor_id", ""))
        return tuple(filter(None, (*told, *names.get("actors", "").split("+"))))
    return ()


@dataclass(frozen=True)
class Stack:
    """One thread of one rank, or one task of asyncio, innermost frame first."""

    thread: str
    main: bool
    frames: tuple[Frame, ...]
    locals: tuple[Mapping[str, str], ...] = ()  # beside frames, if they were asked for
    task: bool = False
    awaits: str = ""  # of a task: what it waits for


@dataclass(frozen=True)
class RunningKernel:
    """A kernel on a GPU, as cuda-gdb shows it."""

    name: str = "a kernel"
    symbol: str = ""
    device: int | None = None
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    sms: int = 0  # how many of them run it
    state: str = ""
    launch: str = ""  # the same text while the same launch of it runs
    file: str = ""
    line: int = 0

    @property
    def sizes(self) -> list[str]:
        """grid 1x1x1, block 32x1x1"""
        sizes = ("grid", self.grid), ("block", self.block)
        return [f"{word} {'x'.join(map(str, size))}" for word, size in sizes if size]


@dataclass(frozen=True)
class Sampled:
    """The stacks of one rank: each sample a list of threads."""

    rank: Rank
    samples: tuple[tuple[Stack, ...], ...]
    source: str  # agent, py-spy, pystack, gdb or cuda-gdb
    why: str = ""  # why not the agent, or not the engine that was asked for
    gil: str = ""  # the thread that held the GIL in every look from outside
    waits_for_gil: tuple[str, ...] = ()  # threads, where native frames were seen
    kernels: tuple[RunningKernel, ...] = ()  # on its GPUs

    def main(self) -> tuple[Stack, ...]:
        """The main thread in each sample in which it was seen."""
        return tuple(stack for sample in self.samples for stack in sample if stack.main)


@dataclass(frozen=True)
class Answer(Generic[V]):
    rank: Rank
    value: V


@dataclass(frozen=True)
class Silence:
    """A rank that did not answer, and what could be found out about why."""

    rank: Rank
    reason: str


Reply = Union[Answer[V], Silence]  # noqa: UP007 - Python 3.10


@dataclass(frozen=True)
class Group:
    """Ranks that gave the same answer."""

    ranks: tuple[Rank, ...]
    value: Any


@dataclass(frozen=True)
class ContainerFailure:
    """A container of a pod that ended with an error, or that cannot start."""

    node: str  # as the session names the container
    pod: str
    container: str
    reason: str  # Kubernetes' word: OOMKilled, Error, Evicted, ImagePullBackOff
    exit_code: int | None = None  # None: it has not started
    message: str = ""
    when: str = ""
    restarts: int = 0
    running: bool = False  # restarted since
    memory_limit: str = ""
    machine: str = ""  # the Kubernetes node
    events: tuple[str, ...] = ()  # warnings about the pod, the most telling first
