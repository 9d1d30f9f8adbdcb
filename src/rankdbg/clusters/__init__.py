"""How nodes are reached: one file a cluster, found by its name in the target.

    local            this machine
    snapshot:DIR     what was seen earlier, saved in a directory

A target is `name` or `name:rest`; the rest is the cluster's own business. Other
packages add clusters through the entry point group `rankdbg.clusters`.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from typing import Any, Protocol

from rankdbg import wire
from rankdbg.errors import UnknownTarget


class Channel(Protocol):
    """A conversation with one node."""

    def ask(self, message: wire.Message, seconds: float) -> Any:
        """The answer's content. Raises RankdbgError if there is none in time."""

    def close(self) -> None: ...


class Cluster(Protocol):
    """Where the nodes of a job are, and how to talk to each."""

    target: str
    origin: str  # what a listing says about where this comes from, `` if that is plain

    def nodes(self) -> list[str]: ...

    def open(self, node: str) -> Channel: ...


CLUSTERS = {
    "local": "rankdbg.clusters.local:Local",
    "snapshot": "rankdbg.clusters.snapshot:Snapshot",
}
ENTRY_POINTS = "rankdbg.clusters"


def find_cluster(target: str) -> Cluster:
    name, _, rest = target.partition(":")
    place = CLUSTERS.get(name) or _from_entry_points(name)
    module, _, attribute = place.partition(":")
    try:
        make: Callable[[str], Cluster] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UnknownTarget(f"the cluster {name!r} cannot be loaded: {error}") from None
    return make(rest)


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
