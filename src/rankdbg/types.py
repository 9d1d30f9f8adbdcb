"""The nouns of rankdbg: plain values, frozen, without any input or output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

State = Literal["running", "stopped", "blocked", "zombie", "gone", "no agent"]
Kind = Literal["rank", "launcher", "helper", "child"]

# What every rank can be selected by; the dimensions of a mesh have other names.
LABELS = ("rank", "pid", "role", "host", "state", "job")


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
    names: Mapping[str, str] = field(default_factory=dict)  # its launcher's: actor, worker
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


@dataclass(frozen=True)
class Stack:
    """One thread of one rank, innermost frame first."""

    thread: str
    main: bool
    frames: tuple[Frame, ...]
    locals: tuple[Mapping[str, str], ...] = ()  # beside frames, if they were asked for


@dataclass(frozen=True)
class Sampled:
    """The stacks of one rank: each sample a list of threads."""

    rank: Rank
    samples: tuple[tuple[Stack, ...], ...]
    source: str  # agent, py-spy, pystack, gdb or cuda-gdb
    why: str = ""  # why not the agent, or not the engine that was asked for
    gil: str = ""  # the thread that held the GIL in every look from outside
    waits_for_gil: tuple[str, ...] = ()  # threads, where native frames were seen
    kernels: tuple[Mapping[str, Any], ...] = ()  # on its GPUs: name, grid, block, device

    def main(self) -> tuple[Stack, ...]:
        """The main thread in each sample in which it was seen."""
        return tuple(stack for sample in self.samples for stack in sample if stack.main)


@dataclass(frozen=True)
class Question:
    """What is asked of ranks: a kind that the node knows, and its arguments."""

    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    rank: Rank
    value: Any


@dataclass(frozen=True)
class Silence:
    """A rank that did not answer, and what could be found out about why."""

    rank: Rank
    reason: str


@dataclass(frozen=True)
class Group:
    """Ranks that gave the same answer."""

    ranks: tuple[Rank, ...]
    value: Any
