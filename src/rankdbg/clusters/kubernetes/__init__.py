"""Pods, entered with `kubectl exec -i` or `oc exec -i`, one for each container.

k8s:NAMESPACE/POD      k8s:NAMESPACE/label=value,label=value      k8s:NAMESPACE/job/NAME
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from rankdbg.clusters import NO_OPTIONS, Cluster, Options
from rankdbg.clusters.kubernetes.api_proxy import ApiProxy
from rankdbg.clusters.kubernetes.kubectl import Kubectl, KubectlFailed, last_line, shell_words
from rankdbg.clusters.kubernetes.kubectl_errors import explain_exec
from rankdbg.clusters.kubernetes.pod_choices import PodChoice, parse
from rankdbg.clusters.kubernetes.pod_logs import ContainerLog, PodLogs
from rankdbg.clusters.kubernetes.pod_streams import PodStream
from rankdbg.clusters.kubernetes.pods import (
    Pod,
    PodEvent,
    failure_of,
    read_events,
    read_pods,
    what_happened,
)
from rankdbg.clusters.transport.channel import CONNECT_SECONDS, ProcessChannel
from rankdbg.clusters.transport.launched import Launched
from rankdbg.clusters.transport.sending import (
    REMOTE,
    give,
    landing_opening,
    program_text,
    shell_line,
)
from rankdbg.clusters.transport.turns import QueuedChannel, Turns
from rankdbg.errors import NodeFailed, NoJob, RankdbgError
from rankdbg.logs.places import LogFile
from rankdbg.types import ContainerFailure

AT_ONCE = 32
FRESH_SECONDS = 5.0
# The kubelet reports the end of a container to the API server with a delay.
NEWS_SECONDS, NEWS_PAUSE = 3.0, 0.3
KILLED = 128 + 9


class Kubernetes(Cluster):
    keeps_logs = True

    def __init__(self, rest: str, options: Options = NO_OPTIONS) -> None:
        self.target = f"k8s:{rest}"
        choice = parse(rest)
        kubectl = Kubectl(choice.namespace, options)
        self._pods = Pods(choice, kubectl)
        self._proxy = ApiProxy(kubectl.of_cluster)
        self._asked = [name.strip() for name in options.container.split(",") if name.strip()]
        self._line = shell_line(options.python, program_follows=True)
        self._turns = Turns(AT_ONCE)
        self._places: dict[str, tuple[str, str]] = {}  # node -> pod, container
        self._entered: set[str] = set()  # nodes
        self._logs: PodLogs | None = None
        self._connect_seconds = options.tolerance(CONNECT_SECONDS)

    def nodes(self) -> list[str]:
        """All matching pods, also those that cannot be entered: they are listed."""
        self._proxy.start()  # starts while the pods are listed
        several = len(self._asked) > 1
        places = {
            f"{pod.name}/{container}" if several else pod.name: (pod.name, container)
            for pod in self._pods.look(time.monotonic() - FRESH_SECONDS).values()
            for container in self._asked or [pod.default]
        }
        self._places.update(places)  # ranks of deleted pods may still be queried
        return list(places)

    def fetch_logs(self, folder: str) -> list[LogFile]:
        """Copy the output of the containers to files in a local directory."""
        if self._logs is None:
            self._logs = PodLogs(self._pods.kubectl, folder)
        pods = self._pods.look(time.monotonic() - FRESH_SECONDS)
        wanted = []
        for node in self.nodes():
            name, container = self._places[node]
            there = pods[name].containers.get(container) if name in pods else None
            if there is not None and (there.running or there.end):
                job = pods[name].job or self._pods.job or name
                about = (there.ident, there.restarts, job, not there.running)
                wanted.append(ContainerLog(node, name, container, *about))
        return self._logs.fetch(wanted)

    def container_failures(self) -> tuple[list[ContainerFailure], str]:
        """Containers that ended with an error or cannot start; and why their events could not be
        read, if they could not."""
        pods = self._pods.look(time.monotonic() - FRESH_SECONDS)
        nodes = [(node, *self._places[node]) for node in self.nodes()]
        there = [(node, pods[name], container) for node, name, container in nodes if name in pods]
        if all(pod.is_well(container) for _, pod, container in there):
            return [], ""
        events, why = self._pods.warnings()
        found = [(node, failure_of(pod, container, events)) for node, pod, container in there]
        return [replace(failure, node=node) for node, failure in found if failure], why

    def open(self, node: str) -> QueuedChannel:
        name, container = self._places[node]
        pod = self._pods.look(time.monotonic() - FRESH_SECONDS).get(name)
        if pod is None:
            raise NodeFailed(
                f"pod {name} was deleted", hint=self._pods.kubectl.shown("get", "pods")
            )
        why_not = self._pods.why_left_alone(pod) or pod.why_closed(container)
        if why_not:
            raise NodeFailed(why_not, hint=self._next_step(pod, container))
        return QueuedChannel(node, self._turns, partial(self._enter, node, pod, container))

    def _enter(self, node: str, pod: Pod, container: str) -> ProcessChannel:
        scope = {
            **REMOTE,
            "unnamed_job": pod.job or self._pods.job or pod.name,
            "if_no_ranks": _other_containers(pod, container),
            "there": self.command_prefix(node),
        }
        command = self._pods.kubectl.exec_command(pod.name, container, self._line)
        first_time = node not in self._entered
        self._entered.add(node)
        return ProcessChannel(
            node,
            command,
            landing_opening(node, scope, lazy=True, guess=first_time),
            explain=partial(self._explain, pod, container),
            preamble=program_text(),
            give=give,
            hint=self._pods.kubectl.readiness_hint,
            start=lambda: self._start(pod, container, partial(Launched, command, whose=node)),
            connect_seconds=self._connect_seconds,
        )

    def _start(
        self, pod: Pod, container: str, launch: Callable[[], Launched]
    ) -> Launched | PodStream:
        """Through the proxy if it is available."""
        words = shell_words(self._line)
        asked = self._proxy.exec_request(pod.namespace, pod.name, container, words)
        return launch() if asked is None else PodStream(*asked, otherwise=launch)

    def close(self) -> None:
        self._proxy.close()

    def command_prefix(self, node: str) -> str:
        """What a user types before a command to run it on this node."""
        name, container = self._places[node]
        return f"{self._pods.kubectl.shown('exec', name, '-c', container, '--')} "

    def _next_step(self, pod: Pod, container: str) -> str:
        if container not in pod.containers:
            return f"-c {pod.default}"
        if pod.deleted and not pod.why_closed(container):
            return f"to look at it anyway, name it: -t k8s:{self._pods.named(pod)}"
        words = ("logs", pod.name, "-c", container) if pod.containers[container].end else ()
        return self._pods.kubectl.shown(*(words or ("describe", "pod", pod.name)))

    # --- why it has ended -------------------------------------------------------------

    def _explain(self, pod: Pod, container: str, status: int | None, noise: bytes) -> RankdbgError:
        """kubectl's message and exit status say little; the state of the pod says more. (A restart
        of kubelet looks like status 0 without output.)"""
        kubectl = self._pods.kubectl
        said = last_line(noise) or f"exit status {status}"
        try:
            happened = self._news(pod, container, patient=status == KILLED)
        except RankdbgError as error:
            what = f"{kubectl.name} exec ended ({said}), and {error.what}"
            return NodeFailed(what, hint=error.hint)
        if happened:
            return NodeFailed(f"{happened} ({kubectl.name} exec: {said})", hint="try again")
        place = f"container {container} of pod {pod.name}"
        if status == KILLED:
            what = (
                f"rankdbg's process in {place} was killed ({said}); the container is still running"
            )
            hint = f"check its memory limit: {kubectl.shown('describe', 'pod', pod.name)}"
        elif status == 0:
            what = f"{kubectl.name} exec into {place} exited without output, which happens when "
            what += "the kubelet or the container runtime restarts"
            hint = "try again"
        else:
            what, hint = explain_exec(said, pod.name, container, pod.machine, kubectl.shown)
        return NodeFailed(what, hint=hint)

    def _news(self, pod: Pod, container: str, patient: bool) -> str:
        begun = time.monotonic()
        while True:
            looked = time.monotonic()
            after = self._pods.look(looked, keep=False).get(pod.name)
            happened = what_happened(pod, container, after)
            if happened or not patient or time.monotonic() - begun > NEWS_SECONDS:
                return happened
            time.sleep(NEWS_PAUSE)


class Pods:
    """The pods that match the target, at the time of the last request."""

    def __init__(self, choice: PodChoice, kubectl: Kubectl) -> None:
        self.kubectl = kubectl
        self._choice = choice
        self.job = choice.job
        self._seen: Mapping[str, Pod] = {}
        self._failure: RankdbgError | None = None
        self._looked = float("-inf")
        self._lock = threading.Lock()

    def look(self, since: float, keep: bool = True) -> Mapping[str, Pod]:
        """The pods, requested after `since`; concurrent callers share one request.

        With `keep`, the last result is returned if the API server is not reachable: the
        connections to the pods may still work.
        """
        with self._lock:
            if self._looked < since:
                self._looked = time.monotonic()
                try:
                    self._seen, self._failure = self._get(first=not self._seen), None
                except RankdbgError as error:
                    self._failure = error
            if self._failure is not None and not (keep and self._seen):
                raise self._failure
            return self._seen

    def warnings(self) -> tuple[list[PodEvent], str]:
        """Warnings about pods of the namespace; and why they could not be read, if so."""
        chosen = "type=Warning,involvedObject.kind=Pod"
        try:
            return read_events(self.kubectl.get("events", "--field-selector", chosen)), ""
        except KubectlFailed as failure:
            if failure.reason == "Forbidden":
                return [], "your role lacks list on events"
            return [], failure.what
        except RankdbgError as error:
            return [], error.what

    def named(self, pod: Pod) -> str:
        """The pod as a target."""
        return (
            f"{self._choice.namespace}/{pod.name}" if self._choice.namespace else f"pod/{pod.name}"
        )

    def why_left_alone(self, pod: Pod) -> str:
        """A pod that is being deleted may already have a successor with the same ranks."""
        if pod.deleted and not self._choice.names:
            return f"pod {pod.name} is being deleted"
        return ""

    def _get(self, first: bool) -> Mapping[str, Pod]:
        choice = self._choice
        missing = ["--ignore-not-found"] if len(choice.names) > 1 else []
        try:
            pods = choice.among(_read(self.kubectl, (*choice.words, *missing)))
        except KubectlFailed as failure:
            if failure.reason != "NotFound":
                raise
            pods = {}
        if first and (not pods or (choice.names and len(pods) < len(choice.names))):
            raise self._nothing(pods)
        return pods

    def _nothing(self, pods: Mapping[str, Pod]) -> RankdbgError:
        """For a namespace that does not exist, kubectl just returns no pods."""
        choice = self._choice
        try:
            if choice.namespace and not pods:
                self.kubectl.get("namespace", choice.namespace)
        except KubectlFailed as failure:
            if failure.reason == "NotFound":
                what = f"namespace {choice.namespace!r} does not exist"
                return NoJob(what, hint=self.kubectl.namespaces_shown())
        except RankdbgError:
            pass  # pods may be visible without permission to list namespaces
        if choice.names:
            name = next(name for name in choice.names if name not in pods)
            what = f"pod {name!r} does not exist in {choice.where}"
            return NoJob(what, hint=self.kubectl.shown("get", "pods"))
        if choice.kind:
            what = f"no pod in {choice.where} belongs to the {choice.kind} {choice.owner!r}"
            return NoJob(what, hint=self.kubectl.shown("get", "pods"))
        what = f"no pod in {choice.where} matches {choice.selector}"
        return NoJob(what, hint=self.kubectl.shown("get", "pods", "--show-labels"))


def _read(kubectl: Kubectl, words: tuple[str, ...]) -> Mapping[str, Pod]:
    document = kubectl.get(*words)
    try:
        return read_pods(document)
    except (KeyError, TypeError, AttributeError) as error:
        what = f"{kubectl.shown('get', *words)} printed invalid output: {error!r}"
        raise NodeFailed(what) from None


def _other_containers(pod: Pod, container: str) -> list[str]:
    others = [name for name, each in pod.containers.items() if name != container and each.running]
    if not others:
        return []
    names = ", ".join(others)
    return [f"pod {pod.name}: no ranks in container {container}; others: {names} (-c {others[0]})"]
