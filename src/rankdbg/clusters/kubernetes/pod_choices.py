"""The part of a target after `k8s:` -> the pods that it selects.

NAMESPACE/POD,POD          by name
NAMESPACE/label=value      by labels
NAMESPACE/job/NAME         pods of a Job; also statefulset, deployment, pytorchjob,
                           raycluster, jobset; pod/NAME is a single pod
label=value   job/NAME     the same, in the namespace of kubectl's context
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rankdbg.clusters.kubernetes.pods import Pod
from rankdbg.errors import BadInput

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_POD = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_LABELS = re.compile(r"[=!]| in | notin ")
_HINT = "rankdbg ps -t k8s:NAMESPACE/POD   (or k8s:NAMESPACE/label=value, k8s:NAMESPACE/job/NAME)"

# As kubectl spells them -> the kind in a pod's owner reference.
KINDS = {
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("job", "jobs"), "Job"),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), "StatefulSet"),
    **dict.fromkeys(("deployment", "deployments", "deploy"), "Deployment"),
    **dict.fromkeys(("pytorchjob", "pytorchjobs"), "PyTorchJob"),
    **dict.fromkeys(("raycluster", "rayclusters"), "RayCluster"),
    **dict.fromkeys(("jobset", "jobsets"), "JobSet"),
}
# Pods of a JobSet belong to its Jobs, those of a Deployment to its ReplicaSets.
_JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
_TEMPLATE_LABEL = "pod-template-hash"


@dataclass(frozen=True)
class PodChoice:
    """Pods of one namespace (empty: that of the context), selected in one of these ways."""

    namespace: str
    names: tuple[str, ...] = ()
    selector: str = ""
    kind: str = ""
    owner: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """For `kubectl get`."""
        if self.names:
            return ("pods", *self.names) if len(self.names) > 1 else ("pod", *self.names)
        return ("pods", "-l", self.selector) if self.selector else ("pods",)

    @property
    def job(self) -> str:
        """Pods without an owner that share a label are one job."""
        return self.owner or self.selector.partition(",")[0].rpartition("=")[2].strip()

    @property
    def where(self) -> str:
        return f"the namespace {self.namespace!r}" if self.namespace else "the context's namespace"

    def among(self, pods: Mapping[str, Pod]) -> dict[str, Pod]:
        """The selected pods among those that kubectl has listed."""
        return {name: pod for name, pod in pods.items() if self._means(pod)}

    def _means(self, pod: Pod) -> bool:
        match self.kind:
            case "":
                return True
            case "JobSet":
                return pod.labels.get(_JOBSET_LABEL) == self.owner
            case "Deployment":
                replicas = f"{self.owner}-{pod.labels.get(_TEMPLATE_LABEL)}"
                return pod.owner == ("ReplicaSet", replicas)
        return pod.owner == (self.kind, self.owner)


def parse(rest: str) -> PodChoice:
    namespace, what = _split(rest)
    if namespace and not _NAMESPACE.fullmatch(namespace):
        raise BadInput(f"invalid namespace {namespace!r} in k8s:{rest}", hint=_HINT)
    kind, slash, name = what.partition("/")
    if slash and not _LABELS.search(what):
        if kind not in KINDS or not _POD.fullmatch(name):
            known = "pod, job, statefulset, deployment, pytorchjob, raycluster, jobset"
            raise BadInput(f"invalid {what!r} in k8s:{rest}: expected KIND/NAME", known, hint=_HINT)
        if KINDS[kind] == "Pod":
            return PodChoice(namespace, names=(name,))
        return PodChoice(namespace, kind=KINDS[kind], owner=name)
    names = tuple(dict.fromkeys(name.strip() for name in what.split(",")))
    if all(_POD.fullmatch(name) for name in names):
        return PodChoice(namespace, names=names)
    if what.startswith("-") or not _LABELS.search(what):
        raise BadInput(f"invalid {what!r} in k8s:{rest}: expected a pod or label=value", hint=_HINT)
    return PodChoice(namespace, selector=what)


def _split(rest: str) -> tuple[str, str]:
    first, slash, what = rest.partition("/")
    of_context = _LABELS.search(first) or (slash and "." in first and _LABELS.search(what))
    if of_context or (first in KINDS and what and "/" not in what):
        return "", rest
    if not first or not what:
        raise BadInput(
            "k8s: names no pods" if not rest else f"k8s:{rest} names no pods", hint=_HINT
        )
    return first, what
