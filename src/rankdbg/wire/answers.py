"""What agents and nodes answer: one class for each kind of answer, as questions.py names them.

Fields with a default are missing in answers of older agents and nodes, and in older snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rankdbg.types import Frame, RunningKernel

Process = tuple[int, int]  # pid and start


@dataclass(frozen=True)
class Silent:
    process: Process
    reason: str


@dataclass(frozen=True)
class Relayed:
    process: Process
    value: Any


@dataclass(frozen=True)
class OfRanks:
    """What a node answers to a question about ranks."""

    answers: tuple[Relayed, ...]
    silent: tuple[Silent, ...]


@dataclass(frozen=True)
class Done:
    pass


# --- processes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labels:
    """What a process says about itself (process/identity.py)."""

    world: int | None = None
    local_rank: int | None = None
    node_rank: int | None = None
    role: str = ""
    names: dict[str, Any] = field(default_factory=dict)
    coordinates: dict[str, int] = field(default_factory=dict)
    mesh: dict[str, int] | list[tuple[str, int]] | None = None
    # What it is recognised by (roster/).
    rank: int | None = None
    source: str = ""
    engine: str = ""
    part: str = ""
    place: int | None = None
    restart: int | None = None
    rendezvous: str = ""
    outer: str = ""  # the job around its job
    run: str = ""  # torchrun's id of its run
    het: int | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    multiprocessing: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Those that it has."""
        return {name: value for name, value in vars(self).items() if value not in (None, "", {})}


@dataclass(frozen=True)
class ProcessEntry:
    pid: int
    start: int
    job: str
    kind: str
    number: int | None
    labels: Labels
    state: str
    detail: str
    where: Frame | None
    age: float
    agent: bool
    python: str
    command: tuple[str, ...]
    step: int | None = None
    ppid: int = 0
    generation: int = 1
    named: bool = True  # whether its job was given a name
    modules: int = 0
    above: tuple[tuple[int, str], ...] | None = None  # its ancestors and what they run


@dataclass(frozen=True)
class ProcessList:
    processes: tuple[ProcessEntry, ...]
    machine: str = ""
    notes: tuple[str, ...] = ()
    other_users: tuple[str, ...] = ()
    stops: OfRanks | None = None  # if they were asked for
    version: str = ""  # of an answer that the client may keep
    unchanged: str = ""  # instead of the rest: the version that the client has is still right


@dataclass(frozen=True)
class ThreadStack:
    name: str
    main: bool
    frames: tuple[Frame, ...]
    locals: tuple[dict[str, str], ...] = ()
    task: bool = False  # of asyncio
    awaits: str = ""  # of a task: what it waits for


@dataclass(frozen=True)
class ProcessSamples:
    process: Process
    samples: tuple[int, ...]  # places in `distinct`
    source: str
    why: str
    gil: str = ""
    waits_for_gil: tuple[str, ...] = ()
    kernels: tuple[RunningKernel, ...] = ()


@dataclass(frozen=True)
class StackSamples:
    distinct: tuple[tuple[ThreadStack, ...], ...]
    processes: tuple[ProcessSamples, ...]
    silent: tuple[Silent, ...]


@dataclass(frozen=True)
class RayWait:
    """A thread in ray.get() or ray.wait()."""

    thread: str
    main: bool
    call: str  # get or wait
    objects: tuple[str, ...]  # ids in hex; they begin with that of the task that makes the object
    enough: int = 0  # so many of them end a ray.wait()


@dataclass(frozen=True)
class RayWaits:
    waits: tuple[RayWait, ...] = ()


@dataclass(frozen=True)
class ThreadOwner:
    """A thread that owes what another waits for."""

    thread: int  # its identifier; 0: it does not exist
    how: str  # what shows it: owner, gone, end, import, run, queued, loop, await; or the call: with, set, put
    where: Frame | None = None
    name: str = ""  # what it is called there


@dataclass(frozen=True)
class WaitingThread:
    """A thread of Python, or a task of asyncio, and what it waits for that another one has."""

    id: int
    name: str
    native: int = 0  # the kernel's number
    main: bool = False
    where: Frame | None = None
    kind: str = (
        ""  # lock, condition, event, semaphore, barrier, queue, future, thread; empty: none;
    )
    # or import; for asyncio also task, sleep, stream, child
    awaits: str = ""  # as the code names it: self._lock
    owners: tuple[ThreadOwner, ...] = ()
    held: bool = False  # of a lock
    task: bool = False
    wait: int = 0  # of a task: another number for each wait; 0: not known
    descriptor: int = -1  # of a stream that a task reads or writes
    child: int = 0  # the process for whose end a task waits


@dataclass(frozen=True)
class StoreKey:
    """A key of a store of torch, for which a thread waits, or which a function that it is in sets."""

    key: str
    call: str  # get, wait; set
    thread: int  # its identifier
    where: Frame
    store: str = ""  # its class


@dataclass(frozen=True)
class ThreadWaits:
    threads: tuple[WaitingThread, ...] = ()
    forked: bool = False
    keys: tuple[StoreKey, ...] = ()
    outside: bool = False  # seen without an agent: threads that owe something may be missing


@dataclass(frozen=True)
class Vitals:
    """What the kernel says; counters are totals."""

    at: float = 0.0  # seconds of the node's clock
    state: str = ""
    why: str = ""  # the state in words
    wchan: str = ""
    call: str = ""  # the system call in which the main thread waits
    on: str = ""  # the file, socket or process that it waits for
    timer: float | None = None  # seconds until the wait ends by itself; 0: never; None: not known
    age: float = 0.0
    cpu: float = 0.0
    ready: float = 0.0  # could have run, but others had the processors
    others: float = 0.0  # other threads, and all processes below it, ran
    others_ready: float = 0.0  # would have, uninterrupted; less than before, once one has ended
    starved: float = 0.0  # seconds until now for which it was ready to run, and got no processor
    others_starved: float = 0.0  # the same of another thread, or of a process below it
    runnable: int = 0  # threads, also of processes below it, that run or could run
    asleep: float | None = None  # seconds for which the main thread has not run; None: not known
    switches: int = 0  # how often the main thread got a processor
    woken: int = 0  # how often it has waited; 0: an older node has not told
    read: int = 0  # bytes, by all threads
    written: int = 0
    children: tuple[Child, ...] = ()  # all processes below it

    @property
    def workers(self) -> tuple[Child, ...]:
        """Without those that multiprocessing has for itself."""
        return tuple(child for child in self.children if not self._is_helper(child))

    @property
    def awaited(self) -> tuple[Child, ...]:
        """The child for which the main thread waits; where that is not known, all that it may be:
        its own children, and what multiprocessing's fork server has started for it."""
        if not self.children:
            return ()
        named = tuple(child for child in self.children if self.on == f"process {child.pid}")
        return named or self.below(0)

    def below(self, parent: int) -> tuple[Child, ...]:
        """The children of one of the children, or its own (0)."""
        if parent:
            return tuple(child for child in self.workers if child.parent == parent)
        inner = {child.pid for child in self.workers}
        return tuple(child for child in self.workers if child.parent not in inner)

    def _is_helper(self, child: Child) -> bool:
        if "multiprocessing.resource_tracker" in child.command:
            return True
        if "multiprocessing.forkserver" not in child.command:
            return False
        # What a fork server has forked has its command.
        servers = [c.pid for c in self.children if "multiprocessing.forkserver" in c.command]
        return child.parent not in servers


@dataclass(frozen=True, kw_only=True)
class Child(Vitals):
    """A process below a rank."""

    pid: int
    name: str
    command: str = ""
    forked: bool = True  # and not started anew, with an interpreter of its own
    start: int = 0  # 0: an older node has not told
    parent: int = 0


# --- values and recorders of a rank ---------------------------------------------------------


@dataclass(frozen=True)
class Described:
    """A value (agent/describe.py)."""

    kind: str  # number, array, text or error
    text: str
    number: float | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    device: str | None = None
    min: float | bool | None = None
    mean: float | None = None
    max: float | bool | None = None
    nan: int | None = None
    local_shape: tuple[int, ...] | None = None  # of a DTensor, whose figures are of that part
    placements: dict[str, str] | None = None
    pending: bool | None = None  # a collective that has not returned makes it
    failed: str | None = None
    length: int | None = None
    digest: str | None = None
    cut: bool | None = None
    type: str | None = None

    def as_json(self) -> dict[str, Any]:
        """What the agent has said: an array of nan has no least value, which is null."""
        said = {"number"} if self.kind == "number" else set()
        said |= {"min", "mean", "max"} if self.nan is not None else set()
        return {k: value for k, value in vars(self).items() if value is not None or k in said}


@dataclass(frozen=True)
class Environment:
    environment: dict[str, str]
    versions: dict[str, str] = field(default_factory=dict)
    path: tuple[Any, ...] = ()


@dataclass(frozen=True)
class TorchWorld:
    """torch's own number of a process, the size of its world, and the store where that has met."""

    rank: int | None = None
    size: int = 0
    store: str = ""


@dataclass(frozen=True)
class Recorders:
    """The documents of flight recorders, which verdicts/collectives reads."""

    torch: bool = False
    documents: list[Any] = field(default_factory=list)
    world: TorchWorld = field(default_factory=TorchWorld)


@dataclass(frozen=True)
class ProfileContents:
    contents: dict[str, int]  # what it is, and how many bytes
    notes: tuple[str, ...] = ()
    stopped: float | None = None  # share of the time


@dataclass(frozen=True)
class HistoryChanged:
    """`traced`: the functions whose branches are noted; `why`: what is not, and why."""

    traced: tuple[str, ...] = ()
    depth: int = 0
    why: str = ""


# --- stops ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceEntry:
    """A file of code at a stop."""

    file: str
    text: bool  # whether the rank can show it
    changed: bool  # on disk, since it was loaded
    identity: tuple[int, ...] | None = None  # of the file on its disk


@dataclass(frozen=True)
class StopReport:
    state: str
    stop: int = 0
    kind: str = ""
    why: str = ""
    thread: str = ""
    main: bool = False
    since: float = 0.0
    where: Frame | None = None
    prompt: str = ""
    output: str = ""
    sources: tuple[SourceEntry, ...] = ()
    busy: bool = False  # with the command of another client
    held: bool = False  # not executed, since a text is missing


@dataclass(frozen=True)
class LimitedOperation:
    """One that began before timeouts were held, and keeps its limit in seconds."""

    operation: str
    group: str
    limit: float | None
    left: float | None


@dataclass(frozen=True)
class StopReports:
    stops: tuple[StopReport, ...]
    in_flight: tuple[LimitedOperation, ...] = ()


@dataclass(frozen=True)
class HeldTimeouts:
    refused: tuple[str, ...] = ()  # groups that cannot be held
    in_flight: tuple[LimitedOperation, ...] = ()


@dataclass(frozen=True)
class BreakPlace:
    """Where a break was set, or why it was not: there is no such file, or no code."""

    state: str
    files: tuple[str, ...]
    nearest: dict[str, int] | None = None
    missed: tuple[str, ...] | None = None  # threads
    counts: dict[str, int] | None = None  # of a rank that waits for OpenBreaks


@dataclass(frozen=True)
class BreakCounts:
    counts: dict[str, int]


@dataclass(frozen=True)
class ClearedBreaks:
    cleared: tuple[tuple[str, int], ...]
    missed: tuple[str, ...]


@dataclass(frozen=True)
class BreakReport:
    file: str
    line: int
    condition: str
    log: str
    hits: int
    error: str
    logged: tuple[str, ...]


@dataclass(frozen=True)
class BreakReports:
    breaks: tuple[BreakReport, ...]


@dataclass(frozen=True)
class SourceFile:
    """What was asked for: its digest, its text (None: it has none), or what became of a copy."""

    digest: str | None = None
    text: str | None = None
    state: str = ""  # shown, differs or not wanted


@dataclass(frozen=True)
class SourceDigests:
    digests: dict[str, str]
