"""Several targets at once: two jobs of one training, trainer and inference."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.clusters import Channel, Cluster


class Several:
    """All nodes of all clusters. A node that two of them know by the same name is named with
    its target: what each of them can see there may differ."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self._clusters = clusters
        self._places: dict[str, tuple[Cluster, str]] = {}
        self.target = " ".join(cluster.target for cluster in clusters)
        self.origin = ", ".join(cluster.origin for cluster in clusters if cluster.origin)

    def nodes(self) -> list[str]:
        for cluster in self._clusters:
            for node in cluster.nodes():
                taken = self._places.get(node, (cluster, node))[0] is not cluster
                name = f"{node} ({cluster.target})" if taken else node
                self._places[name] = cluster, node
        return list(self._places)

    def open(self, node: str) -> Channel:
        cluster, name = self._places[node]
        return cluster.open(name)
