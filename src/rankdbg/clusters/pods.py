"""What the API server says about pods -> values; who can be entered, and what has happened.

All is decided from a pod's status, and nothing from the text of an error message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
# By these the makers of a job's pods say whose they are; else their owner's name says it.
JOB_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "leaderworkerset.sigs.k8s.io/name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
)


@dataclass(frozen=True)
class Container:
    name: str
    ident: str = ""  # another one after each restart
    restarts: int = 0
    running: bool = False
    state: str = ""  # why it is not running
    end: str = ""  # how it, or the one before it, has ended


@dataclass(frozen=True)
class Pod:
    name: str
    uid: str
    phase: str
    containers: Mapping[str, Container]
    default: str  # the container that kubectl takes
    job: str = ""
    deleted: bool = False  # somebody has asked for that; it may still run for a while
    state: str = ""  # why it does not run, as far as that is known

    def why_closed(self, container: str) -> str:
        """Why nothing can be started in this container; `` if it can be tried."""
        if container not in self.containers:
            has = ", ".join(self.containers)
            return f"pod {self.name} has no container {container} (it has: {has})"
        there = self.containers[container]
        if there.running:
            return ""
        if self.phase in ("Succeeded", "Failed"):
            return _with(f"pod {self.name} has ended: {self.phase}", there.end or self.state)
        known = there.state or self.state
        if there.end:
            known = _joined(known, f"it ended before: {there.end}")
        return _with(
            f"container {container} of pod {self.name} does not run (the pod is {self.phase})",
            known,
        )


def what_happened(before: Pod, container: str, after: Pod | None) -> str:
    """To this container, between two looks at its pod; `` if nothing has."""
    if after is None:
        return f"pod {before.name} was deleted"
    if after.uid != before.uid:
        return f"pod {before.name} was deleted and made anew"
    if after.deleted and not before.deleted:
        return f"pod {before.name} is being deleted"
    then, now = before.containers.get(container), after.containers.get(container)
    if then is None or now is None:
        return ""
    if (now.ident, now.restarts) != (then.ident, then.restarts) and now.running:
        return _with(f"container {container} of pod {before.name} was restarted", now.end)
    if then.running and not now.running:
        return after.why_closed(container)
    return ""


def _with(sentence: str, detail: str) -> str:
    return f"{sentence}: {detail}" if detail else sentence


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


# --- from JSON ----------------------------------------------------------------------------


def read_pods(document: Any) -> dict[str, Pod]:
    """A list of pods, or a single one, by name."""
    items = document.get("items") if document.get("kind", "").endswith("List") else [document]
    pods = [_read_pod(item) for item in items or ()]
    return {pod.name: pod for pod in pods}


def _read_pod(item: Any) -> Pod:
    about, spec, status = item["metadata"], item.get("spec", {}), item.get("status", {})
    # Init containers may be sidecars, and `kubectl debug` adds ephemeral ones.
    kinds = (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
        ("ephemeralContainers", "ephemeralContainerStatuses"),
    )
    containers: dict[str, Container] = {}
    for kind, statuses in kinds:
        known = {entry["name"]: entry for entry in status.get(statuses) or ()}
        for entry in spec.get(kind) or ():
            containers[entry["name"]] = _read_container(entry["name"], known.get(entry["name"], {}))
    named = (about.get("annotations") or {}).get(DEFAULT_CONTAINER, "")
    return Pod(
        name=about["name"],
        uid=about.get("uid", ""),
        phase=status.get("phase", "Unknown"),
        containers=containers,
        default=named if named in containers else next(iter(containers), ""),
        job=_job(about),
        deleted="deletionTimestamp" in about,
        state=_why_not_scheduled(status) or _joined(_reason(status)),
    )


def _read_container(name: str, status: Any) -> Container:
    state, last = status.get("state") or {}, status.get("lastState") or {}
    ended = state.get("terminated") or last.get("terminated")
    return Container(
        name=name,
        ident=status.get("containerID", ""),
        restarts=status.get("restartCount", 0),
        running="running" in state,
        state=_reason(state.get("waiting") or {}),
        end=_end(ended) if ended else "",
    )


def _reason(state: Any) -> str:
    return _with(state.get("reason", ""), state.get("message", "")).strip(": ")


def _end(ended: Any) -> str:
    return _joined(ended.get("reason", ""), f"exit code {ended.get('exitCode')}").replace(";", ",")


def _why_not_scheduled(status: Any) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"not scheduled: {condition.get('message') or condition.get('reason') or ''}"
    return ""


def _job(about: Any) -> str:
    labels = about.get("labels") or {}
    named = [labels[name] for name in JOB_LABELS if labels.get(name)]
    owners = [o["name"] for o in about.get("ownerReferences") or () if o.get("controller")]
    return str(next(iter([*named, *owners]), ""))
