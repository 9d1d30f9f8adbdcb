"""The questions that nodes answer themselves; questions.py explains the table."""

from __future__ import annotations

from rankdbg.wire.questions import BY_AGENT, BY_NODE, Question, RankQuestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rankdbg.wire import answers, node_answers, ray_tables  # noqa: F401 - in the bases below


class ListProcesses(Question["answers.ProcessList"], name="roster"):
    where: bool = True  # read positions from outside if an agent does not respond
    job: str | None = None  # ask only the agents of this job
    stops: bool = False  # also list stops
    warm: bool = False  # for a shell, which asks often: without other jobs
    seen: str = ""  # the version of an answer that the client has
    known: Any = None  # what a launcher knows of the processes (node/roster/launcher_records.py)


class SampleStacks(Question["answers.StackSamples"], name="stacks", saved="fitting"):
    """Several samples of the stacks of several processes. Equal stacks are sent once."""

    processes: list[tuple[int, int]] = []  # noqa: RUF012 - pid and start; never changed
    threads: str = "main"
    samples: int = 1
    interval: float = 0.25
    outside: bool = False
    engine: str = ""  # of the session's ENGINES; older sessions say only `outside`
    locals: bool = False
    tasks: bool = False  # those of asyncio too, by agents


class ReadVitals(RankQuestion["answers.Vitals"], name="vitals", by="node", saved="in order"):
    """What the kernel knows of processes, with or without an agent."""


class FindOwners(
    RankQuestion["node_answers.WaitOwners"], name="owners", by="node", saved="fitting"
):
    """Who owes what a process waits for, or what these of its threads (pid and number) wait for; and
    which of these connections (local and remote address) it has."""

    connections: tuple[tuple[str, str], ...] = ()
    threads: tuple[tuple[int, int], ...] = ()


class FindThreadOwners(
    RankQuestion["answers.ThreadWaits"], name="thread_owners", by="node", saved="in order"
):
    """What the threads of a process wait for among themselves, as far as that is seen from outside."""


class ReadAddresses(
    RankQuestion["node_answers.Addresses"], name="addresses", by="node", saved="in order"
):
    """Where a process listens, and on which connections it gets no answer."""


class ReadNcclState(
    RankQuestion["node_answers.NcclState"], name="nccl", by="node", saved="in order"
):
    """What NCCL's own threads know of its communicators."""


class ReadRaylets(Question["ray_tables.Raylets"], name="raylets", saved="in order"):
    """What Ray's raylets pull from other nodes, and which files they wait for."""


class HoldTimeouts(RankQuestion["answers.HeldTimeouts"], name="hold", by="node"):
    """Of the process groups of a job, until `end`, or until the node process ends."""

    job: str = ""
    end: bool = False


# --- the node itself ------------------------------------------------------------------------


class CheckNode(Question["node_answers.CheckResult"], name="check", extra=15.0):
    """What works there: all probes are tried."""


class ReadGpus(Question["node_answers.GpuFigures"], name="gpus"):
    """From NVML, used by any process."""


class ReadHealth(Question["node_answers.NodeFigures"], name="health"):
    """Disks, memory, processes, and kernel messages that match patterns."""

    patterns: list[dict[str, Any]]
    within: float = 0.0
    places: list[str] = []  # noqa: RUF012
    # Of the job that is meant, on any node: pid and start. None: all that there are.
    ranks: list[tuple[int, int]] | None = None


class ReadHistories(Question["node_answers.Histories"], name="history"):
    """What ranks of a job did, from their files: by its name, or by processes (pid and start).
    Events: those of the steps from the first to the last of `steps`, else the `last` so many."""

    job: str = ""
    ranks: list[tuple[int, int]] = []  # noqa: RUF012
    folder: str = ""  # files that were copied, instead of those of the agents
    steps: tuple[int, int] | None = None
    last: int = 0


class BringPackage(Question["node_answers.BroughtPackage"], name="bring"):
    """For ranks whose environment lacks it; without files: whether it exists."""

    name: str
    files: str = ""


# --- log files (node/logs) ------------------------------------------------------------------


class FindLogs(Question["node_answers.LogList"], name="logs find"):
    paths: list[str] = []  # noqa: RUF012
    ended: bool = False  # also logs of Ray clusters that have ended
    left: bool = False  # also logs that ended jobs have left
    job: str | None = None
    slurm: list[tuple[str, bool]] = []  # noqa: RUF012 - patterns, and whether for errors


class ScanLogs(Question["node_answers.ScannedLogs"], name="logs scan"):
    rules: str  # what the rules are called; sent with their content once
    places: list[tuple[str, Any]] = []  # noqa: RUF012 - and the position so far
    patterns: list[Any] | None = None
    clock: str = ""  # an expression for time stamps


class ReadLogs(Question["Any"], name="logs read"):
    """The last messages; a LogQuery, and the answer a Reading (logs/)."""

    wanted: dict[str, Any]
    positions: list[Any] = []  # noqa: RUF012


class ReadNewLogs(ReadLogs, name="logs new"):
    """Those since the positions."""


# --- other files ----------------------------------------------------------------------------


class FindFiles(Question["node_answers.FoundFiles"], name="files find"):
    """Of these processes, and of earlier ones in the same places."""

    processes: list[tuple[int, int]] = []  # noqa: RUF012
    include: list[str] = []  # noqa: RUF012
    places: list[tuple[str, str, float]] = []  # noqa: RUF012


class ReadFile(Question["node_answers.FilePiece"], name="files read"):
    path: str
    offset: int
    length: int


class DigestFile(Question["node_answers.FilePiece"], name="files digest"):
    path: str
    length: int


# --- profiles -------------------------------------------------------------------------------


class BeginProfile(RankQuestion["answers.Done"], name="profile begin", by="node"):
    kind: str
    seconds: float = 10.0
    rate: int = 100
    native: bool = False
    most_stopped: float | None = None  # share of the time
    stack: bool = False


class EndProfile(RankQuestion["answers.ProfileContents"], name="profile end", by="node"):
    kind: str


class ReadProfile(Question["node_answers.ProfilePiece"], name="profile piece"):
    process: tuple[int, int]
    content: str
    offset: int = 0


class ReadClock(Question["node_answers.NodeClock"], name="profile clock"):
    pass


# All that a session can ask a node.
ASKED = {**{n: q for n, q in BY_AGENT.items() if issubclass(q, RankQuestion)}, **BY_NODE}
