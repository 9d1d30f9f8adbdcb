"""Pods from the JSON of the API server: which can be entered, and what happened to them.

Decisions are based on the status of a pod, never on the text of an error message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankdbg.types import ContainerFailure

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
# Labels that name the job of a pod; without one, the name of its owner is used.
JOB_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "leaderworkerset.sigs.k8s.io/name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
)


# Reasons of a container that waits while its pod starts normally.
_STARTING = ("", "ContainerCreating", "PodInitializing")


@dataclass(frozen=True)
class End:
    """How a container ended."""

    reason: str
    exit_code: int | None
    message: str = ""
    when: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, [self.reason, f"exit code {self.exit_code}"]))


@dataclass(frozen=True)
class Container:
    name: str
    ident: str = ""  # changes at each restart
    restarts: int = 0
    running: bool = False
    state: str = ""  # why it is not running
    waits: str = ""  # the reason given by Kubernetes
    end: End | None = None  # how it, or its predecessor, ended
    memory_limit: str = ""


@dataclass(frozen=True)
class Pod:
    name: str
    uid: str
    phase: str
    containers: Mapping[str, Container]
    default: str  # the container that kubectl takes
    job: str = ""
    deleted: bool = False  # deletion was requested; it may still run for a while
    state: str = ""  # why it does not run, if known
    reason: str = ""  # given by Kubernetes
    machine: str = ""  # the Kubernetes node; empty if not scheduled yet
    owner: tuple[str, str] = ("", "")  # kind and name of what has made it
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""

    def is_well(self, container: str) -> bool:
        """It runs, and no predecessor ended with an error."""
        there = self.containers.get(container)
        return there is not None and there.running and not (there.end and there.end.exit_code)

    def why_closed(self, container: str) -> str:
        """Why nothing can be started in this container; empty if it may work."""
        if container not in self.containers:
            has = ", ".join(self.containers)
            return f"pod {self.name} has no container {container} (it has: {has})"
        there = self.containers[container]
        if there.running:
            return ""
        if self.phase in ("Succeeded", "Failed"):
            return _with(f"pod {self.name} has ended: {self.phase}", _text(there.end) or self.state)
        known = there.state or self.state
        if there.end:
            known = _joined(known, f"it ended earlier: {there.end}")
        return _with(
            f"container {container} of pod {self.name} does not run (the pod is {self.phase})",
            known,
        )


@dataclass(frozen=True)
class PodEvent:
    """A warning about a pod."""

    pod: str
    reason: str
    message: str
    count: int = 1
    when: str = ""

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.reason}{times}: {self.message}"


def what_happened(before: Pod, container: str, after: Pod | None) -> str:
    """What happened to this container between two requests; empty if nothing did."""
    if after is None:
        return f"pod {before.name} was deleted"
    if after.uid != before.uid:
        return f"pod {before.name} was deleted and created again"
    if after.deleted and not before.deleted:
        return f"pod {before.name} is being deleted"
    then, now = before.containers.get(container), after.containers.get(container)
    if then is None or now is None:
        return ""
    if (now.ident, now.restarts) != (then.ident, then.restarts) and now.running:
        return _with(f"container {container} of pod {before.name} was restarted", _text(now.end))
    if then.running and not now.running:
        return after.why_closed(container)
    return ""


def failure_of(
    pod: Pod, container: str, events: Sequence[PodEvent] = ()
) -> ContainerFailure | None:
    """The failure of a container, or None. Exit status 0 is not a failure, nor is a pod that is
    starting, unless a warning says what blocks it."""
    there = pod.containers.get(container)
    if there is None:
        return None
    about = [event for event in events if event.pod == pod.name]
    reason, code, message, when = "", None, "", ""
    if pod.reason == "Evicted":
        reason, message = pod.reason, pod.state
    elif there.end is not None and there.end.exit_code:
        reason, code = there.end.reason or "Error", there.end.exit_code
        message, when = there.end.message, there.end.when
    elif not there.running and there.end is None:
        reason, message = _why_not_started(pod, there, about)
    if not reason:
        return None
    return ContainerFailure(
        node=pod.name,
        pod=pod.name,
        container=container,
        reason=reason,
        exit_code=code,
        message=message,
        when=when,
        restarts=there.restarts,
        running=there.running,
        memory_limit=there.memory_limit,
        machine=pod.machine,
        events=tuple(str(event) for event in about),
    )


def _why_not_started(
    pod: Pod, container: Container, warnings: Sequence[PodEvent]
) -> tuple[str, str]:
    if container.waits not in _STARTING:
        return container.waits, container.state
    if pod.reason:
        return pod.reason, pod.state
    return (warnings[0].reason, warnings[0].message) if warnings else ("", "")


def _text(end: End | None) -> str:
    return "" if end is None else str(end)


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
            containers[entry["name"]] = _read_container(entry, known.get(entry["name"], {}))
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
        reason=_unscheduled(status).get("reason", "") or status.get("reason", ""),
        machine=spec.get("nodeName", ""),
        owner=_owner(about),
        labels=about.get("labels") or {},
        namespace=about.get("namespace", ""),
    )


def _read_container(spec: Any, status: Any) -> Container:
    state, last = status.get("state") or {}, status.get("lastState") or {}
    ended = state.get("terminated") or last.get("terminated")
    waiting = state.get("waiting") or {}
    return Container(
        name=spec["name"],
        ident=status.get("containerID", ""),
        restarts=status.get("restartCount", 0),
        running="running" in state,
        state=_reason(waiting),
        waits=waiting.get("reason", ""),
        end=_end(ended) if ended else None,
        memory_limit=str(((spec.get("resources") or {}).get("limits") or {}).get("memory", "")),
    )


def read_events(document: Any) -> list[PodEvent]:
    """The latest first; BackOff last, because it only repeats how the container ended."""
    events = [_read_event(item) for item in document.get("items") or ()]
    return sorted(sorted(events, key=_when, reverse=True), key=lambda e: e.reason == "BackOff")


def _when(event: PodEvent) -> str:
    return event.when


def _read_event(item: Any) -> PodEvent:
    series = item.get("series") or {}
    moments = (
        series.get("lastObservedTime"),
        *(item.get(name) for name in ("lastTimestamp", "eventTime", "firstTimestamp")),
    )
    return PodEvent(
        pod=item["involvedObject"].get("name", ""),
        reason=item.get("reason") or "Warning",
        message=" ".join((item.get("message") or "").split()),
        count=series.get("count") or item.get("count") or 1,
        when=next(filter(None, moments), ""),
    )


def _reason(state: Any) -> str:
    return _with(state.get("reason", ""), state.get("message", "")).strip(": ")


def _end(ended: Any) -> End:
    return End(
        ended.get("reason", ""),
        ended.get("exitCode"),
        ended.get("message", ""),
        ended.get("finishedAt") or "",
    )


def _why_not_scheduled(status: Any) -> str:
    condition = _unscheduled(status)
    if not condition:
        return ""
    return f"not scheduled: {condition.get('message') or condition.get('reason') or ''}"


def _unscheduled(status: Any) -> Any:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition
    return {}


def _job(about: Any) -> str:
    labels = about.get("labels") or {}
    named = [labels[name] for name in JOB_LABELS if labels.get(name)]
    return str(next(iter([*named, _owner(about)[1]]), ""))


def _owner(about: Any) -> tuple[str, str]:
    owners = about.get("ownerReferences") or ()
    return next(((o.get("kind", ""), o["name"]) for o in owners if o.get("controller")), ("", ""))
