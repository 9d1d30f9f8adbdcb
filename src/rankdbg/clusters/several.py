"""Several targets at once: two jobs of one training, trainer and inference."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.clusters import Channel, Cluster


class SeveralClusters(Cluster):
    """All nodes of all clusters. If two clusters use the same node name, the target is added to
    it: each of them may see different processes there."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self._clusters = clusters
        self._places: dict[str, tuple[Cluster, str]] = {}
        self.target = " ".join(cluster.target for cluster in clusters)
        self.origin = ", ".join(cluster.origin for cluster in clusters if cluster.origin)
        names = {cluster.job_name for cluster in clusters}
        self.job_name = names.pop() if len(names) == 1 else ""

    @property
    def aliases(self) -> dict[str, str]:
        """Only unambiguous aliases."""
        meant: dict[str, set[str]] = {}
        for cluster in self._clusters:
            for alias, name in cluster.aliases.items():
                meant.setdefault(alias, set()).add(name)
        return {alias: names.pop() for alias, names in meant.items() if len(names) == 1}

    def why_ended(self) -> str:
        """Only when all have ended."""
        reasons = [cluster.why_ended() for cluster in self._clusters]
        return "; ".join(filter(None, reasons)) if all(reasons) else ""

    def end_time(self) -> float | None:
        """The earliest end time."""
        times = [cluster.end_time() for cluster in self._clusters]
        return min((moment for moment in times if moment is not None), default=None)

    def slurm_logs(self) -> list[tuple[str, bool]]:
        """If the targets are one job; empty if they are several."""
        return self._clusters[0].slurm_logs() if self.job_name else []

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

    def close(self) -> None:
        for cluster in self._clusters:
            cluster.close()
