"""How nodes are reached: one module per cluster, found by its name in the target.

    local               this machine
    ssh:HOST,HOST       machines that ssh reaches
    slurm:JOB           the nodes of a Slurm job
    k8s:NAMESPACE/POD   pods that kubectl or oc reaches
    ray:auto            the nodes of a Ray cluster
    monarch             procs of Monarch's actors on this machine
    snapshot:DIR        what was seen earlier, saved in a directory

A target is `name` or `name:rest`; the cluster defines the rest. Other
packages add clusters through the entry point group `rankdbg.clusters`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from rankdbg import wire
from rankdbg.errors import RankdbgError
from rankdbg.logs.places import LogFile
from rankdbg.types import ContainerFailure
from rankdbg.wire.streams import Stream


class Channel(Protocol):
    """A conversation with one node."""

    @property
    def usable(self) -> bool:
        """False if the connection is broken."""

    @property
    def failure(self) -> RankdbgError | None:
        """Why the connection is broken; None also if it was given up for another reason."""

    def begin(self, message: wire.Message) -> Waiting:
        """Ask without waiting. Raises RankdbgError if the connection is already broken."""

    def hang_up(self) -> None:
        """Let the node process exit, without waiting for it."""

    def close(self, deadline: float) -> None: ...


class Waiting(Protocol):
    """A question that is under way."""

    def answer(self, seconds: float, reach: float | None = None) -> Any:
        """The content of the answer. Raises RankdbgError if none has arrived `seconds` after
        the question was sent; or, without asking, if the node is not reached within `reach`
        seconds. Connecting continues in that case."""

    def open_stream(self, seconds: float) -> tuple[Stream, Any]:
        """For a question that stays open and carries bytes; with the first answer."""


class Cluster(ABC):
    """The nodes of a job, and how to connect to each. Only nodes() and open() are required; a
    cluster overrides the others if it has more information."""

    target: str
    origin = ""  # shown in listings: where the data comes from; empty if obvious
    saved = ""  # when the data was saved, as ISO 8601; empty: the job is asked now
    job_name = ""  # if the target is one job
    keeps_logs = False  # outside the disks of its nodes: fetch_logs() copies them

    @abstractmethod
    def nodes(self) -> list[str]: ...

    @abstractmethod
    def open(self, node: str) -> Channel: ...

    @property
    def aliases(self) -> dict[str, str]:
        """Other names of a job -> its name here."""
        return {}

    def command_prefix(self, node: str) -> str:
        """What a user types before a command that is to run on this node."""
        return f"on {node}: "

    def why_ended(self) -> str | None:
        """Empty unless it is certain that the job has ended; None: no scheduler knows."""
        return None

    def end_time(self) -> float | None:
        """When the scheduler will end the job, in seconds since the epoch."""
        return None

    def slurm_logs(self) -> list[tuple[str, bool]]:
        """Patterns of Slurm's output files, and whether for errors: nodes cannot know them."""
        return []

    def fetch_logs(self, folder: str) -> list[LogFile]:
        """Copy logs that are on no node's disk to files in a local directory."""
        return []

    def container_failures(self) -> tuple[list[ContainerFailure], str]:
        """Containers that ended with an error or cannot start; and why their events could not be
        read, if they could not."""
        return [], ""

    def ray_tables(self, job: str) -> dict[str, Any] | None:
        """What Ray knows about a job of its own (wire/ray_tables.py); None: it cannot be asked."""
        return None

    def close(self) -> None:  # noqa: B027, most hold nothing
        """Release the resources that all nodes share."""


@dataclass(frozen=True)
class Options:
    """How to reach nodes, in addition to the target. Each cluster uses the options that
    concern it."""

    python: str = ""  # the interpreter on the node; for Ray the local one that has Ray
    container: str = ""  # in a pod
    context: str = ""  # of kubectl's configuration
    kubectl: str = ""  # the command: kubectl or oc
    srun: tuple[str, ...] = ()  # more options for srun
    patience: float = 0.0  # a factor, for slow nodes; 0: as RANKDBG_PATIENCE says

    def tolerance(self, seconds: float) -> float:
        """How long to wait for what usually takes much less than this."""
        return seconds * (self.patience or 1.0)


CLUSTERS = {
    "local": "rankdbg.clusters.local:Local",
    "ssh": "rankdbg.clusters.ssh:Ssh",
    "slurm": "rankdbg.clusters.slurm:find_cluster",
    "k8s": "rankdbg.clusters.kubernetes:Kubernetes",
    "ray": "rankdbg.clusters.ray:Ray",
    "monarch": "rankdbg.clusters.monarch:Monarch",
    "snapshot": "rankdbg.clusters.snapshot:Snapshot",
}
ENTRY_POINTS = "rankdbg.clusters"
NO_OPTIONS = Options()
