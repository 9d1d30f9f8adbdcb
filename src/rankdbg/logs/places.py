"""Log files: their paths, their writers, and which of them are the same file.

Values sent by nodes to the client; nothing here opens a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

Kind = Literal[
    "given", "open", "ray", "slurm", "pod", "torchrun", "torchspec", "torchtitan", "kernel",
    "status",
]  # fmt: skip
Stream = Literal["stdout", "stderr", ""]
W = TypeVar("W", bound=str)
RAY = "ray"  # the job of what Ray itself writes, for all of its jobs


@dataclass(frozen=True)
class LogFile:
    node: str
    path: str  # as the job calls it
    kind: Kind = "given"
    size: int = 0
    modified: float = 0.0
    ranks: tuple[int, ...] = ()  # all that write into it: one file for many is normal
    pid: int | None = None  # where it is one process that writes
    role: str = ""  # of that process: a class of Ray's, a launcher
    actor: str = ""  # its name, where Ray has one
    job: str = ""  # `` for what belongs to no job alone
    jobs: tuple[str, ...] = ()  # where several write it: Monarch has one log for each user
    stream: Stream = ""
    read_at: str = ""  # what to open on the node, where that is another name for it
    deleted: bool = False  # deleted, and still being written
    identity: str = ""  # the same for the same file, also where two nodes share a file system
    error: str = ""  # why it cannot be read
    ended: bool = False  # its writer has ended

    @property
    def rank(self) -> int | None:
        """Its rank, if only one rank writes it."""
        return self.ranks[0] if len(self.ranks) == 1 else None

    @property
    def place(self) -> str:
        """What to open on its node."""
        return self.read_at or self.path

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "ranks": list(self.ranks), "jobs": list(self.jobs)}

    @staticmethod
    def from_json(value: Mapping[str, Any], node: str) -> LogFile:
        known = {name: value[name] for name in LogFile.__dataclass_fields__ if name in value}
        lists = {name: tuple(value.get(name, ())) for name in ("ranks", "jobs")}
        return LogFile(**{**known, **lists, "node": node})


@dataclass
class FoundLogs:
    """The log files of all nodes, each file once."""

    files: list[LogFile] = field(default_factory=list)
    silent_nodes: dict[str, str] = field(default_factory=dict)  # and why
    notes: list[str] = field(default_factory=list)
    clocks: dict[str, float] = field(default_factory=dict)  # what each node's wall clock shows

    def of_job(self, job: str, on_ray: bool = False) -> FoundLogs:
        """This job's files, and those that belong to none; Ray's own, if it is one of Ray's: that
        a driver says, whose workers have not started, or a file of a worker."""
        wanted = {job, ""}
        if on_ray or any(file.kind == "ray" and file.job == job for file in self.files):
            wanted.add(RAY)
        return replace(
            self,
            files=[f for f in self.files if (job in f.jobs if f.jobs else f.job in wanted)],
        )


# What one process has is known best by what it holds open; what a question names comes last.
_PREFERENCE: tuple[Kind, ...] = (
    "torchrun",
    "torchspec",
    "torchtitan",
    "ray",
    "slurm",
    "open",
    "pod",
    "given",
    "kernel",
    "status",
)


def merged(files: Iterable[LogFile]) -> list[LogFile]:
    """Each file once: found in several ways, by several nodes, or written by several ranks."""
    by_file: dict[tuple[str, ...], list[LogFile]] = {}
    for file in files:
        key = (file.path, file.identity) if file.identity else (file.node, file.path)
        by_file.setdefault(key, []).append(file)
    return sorted(
        (_one_of(same) for same in by_file.values()), key=lambda file: (file.node, file.path)
    )


def _one_of(same: list[LogFile]) -> LogFile:
    """Read on a node that writes it: another may see what a shared file system had a while ago.
    A launcher that has opened the files of its ranks is not their writer."""
    first = min(same, key=lambda file: (bool(file.error), not file.ranks, file.pid is None))
    owners = [file for file in same if file.ranks] or same
    pids = {(file.node, file.pid) for file in owners if file.pid is not None}
    jobs = sorted({job for file in same for job in (file.jobs or [file.job]) if job})
    return replace(
        first,
        kind=min((file.kind for file in same), key=_PREFERENCE.index),
        size=max(file.size for file in same),
        modified=max(file.modified for file in same),
        ranks=tuple(sorted({rank for file in owners for rank in file.ranks})),
        pid=next(iter(pids))[1] if len(pids) == 1 else None,
        role=_common(file.role for file in owners),
        actor=_common(file.actor for file in owners),
        job=jobs[0] if len(jobs) == 1 else "",
        jobs=tuple(jobs) if len(jobs) > 1 else (),
        stream=_common(file.stream for file in same),
    )


def _common(words: Iterable[W]) -> W | Literal[""]:
    """The value that all non-empty values share."""
    said = {word for word in words if word}
    return said.pop() if len(said) == 1 else ""


# --- what a name says ---------------------------------------------------------------------

_RAY_WORKER = re.compile(r"^worker-([0-9a-f]+)-([0-9a-f]+)-(\d+)\.(out|err)$")
_RAY_SETUP = re.compile(r"^runtime_env_setup-([0-9a-f]{8})\.log$")
_TORCHRUN = re.compile(r"/attempt_(\d+)/(?:(\d+)/)?(?:filtered_)?(stdout|stderr)\.log$")
_TORCHSPEC = re.compile(r"/(training|inference|\w+)/([^/]+)/\1_g\d+_rank(\d+)_\d+_\d+\.log$")
_TORCHTITAN = re.compile(r"/structured_logs/([\w-]+)\.global_rank_(\d+)\.[\w-]+\.jsonl$")


def ray_worker(name: str) -> tuple[str, str, int, Stream] | None:
    """worker-WORKER-JOB-PID.out -> worker, job, pid, stream."""
    found = _RAY_WORKER.match(name)
    if found is None:
        return None
    return found[1], found[2], int(found[3]), "stdout" if found[4] == "out" else "stderr"


def torchrun_rank(path: str) -> int | None:
    """RUN/attempt_0/3/stderr.log -> 3: the rank's number on its node."""
    found = _TORCHRUN.search(path)
    return int(found[2]) if found and found[2] else None


def ray_setup(name: str) -> str:
    """runtime_env_setup-JOB.log -> job, or ``."""
    found = _RAY_SETUP.match(name)
    return found[1] if found else ""


def kind_of(path: str) -> Kind:
    """The kind of writer of an open file, by the form of its name."""
    name = path.rpartition("/")[2]
    if _RAY_WORKER.match(name):
        return "ray"
    if _TORCHRUN.search(path):
        return "torchrun"
    if "/structured_logs/" in path and name.endswith(".jsonl"):
        return "torchtitan"
    if _TORCHSPEC.search(path):
        return "torchspec"
    return "open"


class NamedRank(NamedTuple):
    role: str
    rank: int  # among those of its role
    node: str = ""


def named_rank(path: str) -> NamedRank | None:
    """Who has written a file, where frameworks say it in names:
    training/10.0.0.1/training_g0_rank3_….log, structured_logs/generator.global_rank_3.….jsonl."""
    if found := _TORCHSPEC.search(path):
        return NamedRank(found[1], int(found[3]), found[2])
    if found := _TORCHTITAN.search(path):
        # Of a plain training all are that: their other logs do not say it.
        return NamedRank("" if found[1] == "training" else found[1], int(found[2]))
    return None
