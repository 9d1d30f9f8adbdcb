"""What nodes answer about themselves, their files and what their processes wait for, as
node_questions.py names it.

Fields with a default are missing in answers of older nodes, and in older snapshots.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rankdbg.types import Frame


@dataclass(frozen=True)
class CheckFinding:
    works: bool | None  # None: it cannot be tried
    text: str


@dataclass(frozen=True)
class CheckResult:
    findings: dict[str, CheckFinding]


@dataclass(frozen=True)
class AwaitedThing:
    """What a process waits for, and the processes of its machine that owe it."""

    kind: str  # pipe, fifo, socket, connection, listener, lock, polled, child, mount
    name: str
    owners: tuple[int, ...] = ()
    local: str = ""  # addresses of a connection
    remote: str = ""  # or the server of a mount
    descriptor: int = -1  # of an open file
    beside: tuple[int, ...] = ()  # other processes that wait for the same file system
    accepted: bool = False  # a connection that the other end has opened
    unread: int = 0  # bytes sent through it that the other end, on this machine, has not read


@dataclass(frozen=True)
class AwaitedMutex:
    """One of C for which a thread waits."""

    holder: int  # the kernel's number of a thread of the same process; 0: one of its parent
    address: int = 0


@dataclass(frozen=True)
class WaitingProcess:
    pid: int
    start: int
    command: str
    user: str = ""  # of another user
    state: str = ""  # in words, if it is unusual
    things: tuple[AwaitedThing, ...] = ()
    mutex: AwaitedMutex | None = None


@dataclass(frozen=True)
class ThreadThings:
    """What a thread waits for in the kernel. Its name and place are those that Python has for it,
    or else the name is the kernel's."""

    native: int
    things: tuple[AwaitedThing, ...] = ()
    mutex: AwaitedMutex | None = None
    pid: int = 0  # of its process; 0: the one that was asked about
    name: str = ""  # empty: none of its own
    where: Frame | None = None
    call: str = ""  # the system call that it is in
    timer: float | None = None  # seconds until that ends by itself; 0: never; None: not known
    woken: int = 0  # how often it has waited
    at: float = 0.0  # seconds of the node's clock


@dataclass(frozen=True)
class WaitOwners:
    """A process, those that owe what it waits for, and so on."""

    processes: tuple[WaitingProcess, ...]
    threads: tuple[ThreadThings, ...] = ()  # that were asked for, or hold a mutex
    holds: tuple[tuple[str, str], ...] = ()  # connections that were asked for, as it has them


@dataclass(frozen=True)
class Addresses:
    """Connections on which a process gets no answer, by their local and remote HOST:PORT; and the
    addresses at which it listens."""

    unanswered: tuple[tuple[str, str], ...] = ()
    listening: tuple[str, ...] = ()


@dataclass(frozen=True)
class NcclRank:
    """A rank of a communicator, by its address and process, and how many operations of each kind
    it has launched."""

    rank: int
    host: str
    pid: int
    launched: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class NcclCommunicator:
    """`most`: before NCCL 2.28.7, how many operations the ranks have launched that are not named."""

    name: str
    size: int
    ranks: tuple[NcclRank, ...] = ()
    most: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class NcclState:
    """By the process that answers for all of its job; others have none."""

    communicators: tuple[NcclCommunicator, ...] = ()


@dataclass(frozen=True)
class GpuProcess:
    pid: int
    memory: int | None = None  # bytes


@dataclass(frozen=True)
class Gpu:
    """As in docs/reference/gpus.md; None for what it does not tell."""

    index: int
    uuid: str | None = None
    name: str | None = None
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: float | None = None
    clock: float | None = None
    clock_limit: float | None = None
    memory_clock: float | None = None
    slowed_by: tuple[str, ...] = ()
    ecc_uncorrected: int | None = None
    processes: tuple[GpuProcess, ...] = ()
    error: str | None = None  # it cannot be read

    def as_json(self) -> dict[str, Any]:
        """Without an error, or with nothing else."""
        if self.error is not None:
            return {"index": self.index, "error": self.error}
        return {name: value for name, value in asdict(self).items() if name != "error"}


@dataclass(frozen=True)
class GpuFigures:
    """From NVML."""

    gpus: tuple[Gpu, ...]
    driver: str
    why: str  # some are missing
    pids: str = ""  # why there are none


@dataclass(frozen=True)
class Disk:
    place: str
    size: int | None = None  # None: it does not respond
    free: int = 0
    files: int = 0
    files_free: int = 0
    why: str = ""


@dataclass(frozen=True)
class MemoryGroup:
    group: str
    limit: int | None
    used: int | None
    kills: int


@dataclass(frozen=True)
class Memory:
    size: int
    available: int
    groups: tuple[MemoryGroup, ...]


@dataclass(frozen=True)
class HeldProcess:
    """One that cannot end, or does not respond."""

    pid: int
    name: str
    state: str
    parent: int
    why: str


@dataclass(frozen=True)
class NodeFigures:
    disks: tuple[Disk, ...]
    memory: Memory
    processes: tuple[HeldProcess, ...]
    kernel: tuple[Any, ...] = ()  # messages: logs/patterns.py: Hit
    why_no_kernel: str = ""
    own_pids: bool = False  # whether kernel messages use the pids of the node
    job: dict[str, Any] = field(default_factory=dict)  # verdicts/failures/oom_kills.py
    load: float | None = None  # processes that ran or wanted to, the mean of a minute
    processors: int = 0


@dataclass(frozen=True)
class BroughtPackage:
    path: str


@dataclass(frozen=True)
class NodeClock:
    now_ns: int


@dataclass(frozen=True)
class ProfilePiece:
    data: str  # base64 of zlib


@dataclass(frozen=True)
class LogList:
    files: list[dict[str, Any]]  # logs/places.py: LogFile
    notes: tuple[str, ...]
    clock: str


@dataclass(frozen=True)
class ScannedLogs:
    files: tuple[tuple[str, Any], ...] = ()  # and additions (logs/)
    unknown: str | None = None  # the rules that must be sent again


@dataclass(frozen=True)
class FoundFile:
    path: str
    kind: str
    size: int
    modified: int
    inode: int


@dataclass(frozen=True)
class FoundFiles:
    files: tuple[FoundFile, ...]
    places: list[tuple[str, str, float]]  # to look at again
    now: int
    busy: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class FilePiece:
    """A piece of a file, or only its digest, or why it cannot be read."""

    sha256: str = ""
    data: str = ""  # base64
    why: str = ""


# --- histories ------------------------------------------------------------------------------


@dataclass(frozen=True)
class HistoryEvent:
    """`group`: its name, description and size; `count`: of the step, or of the call in its group;
    `value`: of a mark; the other end of a send or recv; the root of a broadcast, say."""

    index: int
    time: int  # nanoseconds
    kind: str
    name: str = ""
    place: str = ""  # FILE:LINE FUNCTION
    group: tuple[str, ...] = ()
    count: int = 0
    value: Any = None


@dataclass(frozen=True)
class HistoryFile:
    """`digests`: which of the answer's sequences."""

    process: tuple[int, int]
    alive: bool
    host: str
    labels: dict[str, Any]
    digests: int
    events: tuple[HistoryEvent, ...] = ()


@dataclass(frozen=True)
class Histories:
    """`digests`: sequences of (step, hash of its calls to other ranks, hash of all of its events, how
    many), oldest first."""

    histories: tuple[HistoryFile, ...] = ()
    digests: tuple[tuple[tuple[int, int, int, int], ...], ...] = ()
    damaged: tuple[str, ...] = ()
