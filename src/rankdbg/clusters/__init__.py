"""How nodes are reached: one file a cluster, found by its name in the target.

    local               this machine
    ssh:HOST,HOST       machines that ssh reaches
    slurm:JOB           the nodes of a Slurm job
    k8s:NAMESPACE/POD   pods that kubectl or oc reaches
    ray:auto            the nodes of a Ray cluster
    monarch             procs of Monarch's actors on this machine
    snapshot:DIR        what was seen earlier, saved in a directory

A target is `name` or `name:rest`; the rest is the cluster's own business. Other
packages add clusters through the entry point group `rankdbg.clusters`.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rankdbg import wire
from rankdbg.errors import UnknownTarget
from rankdbg.streams import Stream


class Channel(Protocol):
    """A conversation with one node."""

    @property
    def usable(self) -> bool:
        """Whether questions can still be asked: not if it has broken."""

    def begin(self, message: wire.Message) -> Waiting:
        """Ask, and do not wait. Raises RankdbgError if that is already in vain."""

    def hang_up(self) -> None:
        """Let the node end, without waiting for it."""

    def close(self, deadline: float) -> None: ...


class Waiting(Protocol):
    """A question that is under way."""

    def answer(self, seconds: float, reach: float | None = None) -> Any:
        """The answer's content. Raises RankdbgError if there is none so many seconds after
        it could be asked; or, if the node is not reached within `reach` seconds, without
        having asked. It then goes on being reached."""

    def open_stream(self, seconds: float) -> tuple[Stream, Any]:
        """For a question that stays open, and carries bytes; with what was said first."""


class Cluster(Protocol):
    """Where the nodes of a job are, and how to talk to each."""

    target: str
    origin: str  # what a listing says about where this comes from, `` if that is plain

    def nodes(self) -> list[str]: ...

    def open(self, node: str) -> Channel: ...


@dataclass(frozen=True)
class Options:
    """How to reach nodes, as far as the target does not say it. Each cluster takes what
    concerns it."""

    python: str = ""  # the interpreter on the node; for Ray the one here that has Ray
    container: str = ""  # in a pod
    context: str = ""  # of kubectl's configuration
    kubectl: str = ""  # the command: kubectl or oc
    srun: tuple[str, ...] = ()  # more options for srun


CLUSTERS = {
    "local": "rankdbg.clusters.local:Local",
    "ssh": "rankdbg.clusters.ssh:Ssh",
    "slurm": "rankdbg.clusters.slurm:Slurm",
    "k8s": "rankdbg.clusters.kubernetes:Kubernetes",
    "ray": "rankdbg.clusters.ray:Ray",
    "monarch": "rankdbg.clusters.monarch:Monarch",
    "snapshot": "rankdbg.clusters.snapshot:Snapshot",
}
ENTRY_POINTS = "rankdbg.clusters"
NO_OPTIONS = Options()


def find_cluster(targets: Sequence[str], options: Options = NO_OPTIONS) -> Cluster:
    """The cluster that a target names; several targets are one cluster with all their nodes."""
    if len(targets) == 1:
        return _find(targets[0], options)
    from rankdbg.clusters.several import Several

    return Several([_find(target, options) for target in dict.fromkeys(targets)])


def _find(target: str, options: Options) -> Cluster:
    name, _, rest = target.partition(":")
    place = CLUSTERS.get(name) or _from_entry_points(name)
    module, _, attribute = place.partition(":")
    try:
        make: Callable[[str, Options], Cluster] = getattr(
            importlib.import_module(module), attribute
        )
    except (ImportError, AttributeError) as error:
        raise UnknownTarget(f"the cluster {name!r} cannot be loaded: {error}") from None
    return make(rest, options)


def _from_entry_points(name: str) -> str:
    from importlib.metadata import entry_points

    added = {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}
    if name in added:
        return added[name]
    names = sorted({*CLUSTERS, *added})
    near = difflib.get_close_matches(name, names, n=1)
    raise UnknownTarget(
        f"no target {name!r}",
        f"targets are: {', '.join(names)}",
        hint=f"did you mean -t {near[0]}?" if near else "rankdbg ps -t local",
    )
