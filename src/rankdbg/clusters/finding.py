"""From targets such as `slurm:17` to clusters, also those of other packages."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Sequence

from rankdbg.clusters import CLUSTERS, ENTRY_POINTS, NO_OPTIONS, Cluster, Options
from rankdbg.clusters.several import SeveralClusters
from rankdbg.errors import UnknownTarget


def find_cluster(targets: Sequence[str], options: Options = NO_OPTIONS) -> Cluster:
    """The cluster that a target names; several targets are one cluster with all their nodes."""
    if len(targets) == 1:
        return _find(targets[0], options)
    return SeveralClusters([_find(target, options) for target in dict.fromkeys(targets)])


def _find(target: str, options: Options) -> Cluster:
    name, _, rest = target.partition(":")
    place = CLUSTERS.get(name) or _from_entry_points(name)
    module, _, attribute = place.partition(":")
    try:
        make: Callable[[str, Options], Cluster] = getattr(
            importlib.import_module(module), attribute
        )
    except (ImportError, AttributeError) as error:
        raise UnknownTarget(f"cannot load the cluster {name!r}: {error}") from None
    return make(rest, options)


def _from_entry_points(name: str) -> str:
    from importlib.metadata import entry_points

    added = {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}
    if name in added:
        return added[name]
    names = sorted({*CLUSTERS, *added})
    near = difflib.get_close_matches(name, names, n=1)
    raise UnknownTarget(
        f"unknown target {name!r}",
        f"targets: {', '.join(names)}",
        hint=f"did you mean -t {near[0]}?" if near else "rankdbg ps -t local",
    )
