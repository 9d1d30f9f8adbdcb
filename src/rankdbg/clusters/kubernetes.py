"""Pods, entered with `kubectl exec -i` or `oc exec -i`, one for each container.

k8s:NAMESPACE/POD      k8s:NAMESPACE/label=value,label=value
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from functools import partial

from rankdbg.clusters import NO_OPTIONS, Options
from rankdbg.clusters.channel import ProcessChannel
from rankdbg.clusters.kubectl import Kubectl, KubectlFailed, last_words
from rankdbg.clusters.pod_logs import PodLogs, Wanted
from rankdbg.clusters.pods import Pod, read_pods, what_happened
from rankdbg.clusters.sending import REMOTE, landing_opening, shell_line
from rankdbg.clusters.turns import QueuedChannel, Turns
from rankdbg.errors import BadInput, NodeFailed, NoJob, RankdbgError
from rankdbg.logs.places import LogFile

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_POD = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")

AT_ONCE = 16
FRESH_SECONDS = 5.0
# kubelet tells the API server a moment later that a container has ended.
NEWS_SECONDS, NEWS_PAUSE = 3.0, 0.3
KILLED = 128 + 9


class Kubernetes:
    origin = ""

    def __init__(self, rest: str, options: Options = NO_OPTIONS) -> None:
        self.target = f"k8s:{rest}"
        namespace, what = _parsed(rest)
        self._pods = Pods(namespace, what, Kubectl(namespace, options))
        self._asked = [name.strip() for name in options.container.split(",") if name.strip()]
        self._line = shell_line(options.python)
        self._turns = Turns(AT_ONCE)
        self._places: dict[str, tuple[str, str]] = {}  # node -> pod, container
        self._logs: PodLogs | None = None

    def nodes(self) -> list[str]:
        """All pods that match, also those that cannot be entered: they are to be named."""
        several = len(self._asked) > 1
        places = {
            f"{pod.name}/{container}" if several else pod.name: (pod.name, container)
            for pod in self._pods.look(time.monotonic() - FRESH_SECONDS).values()
            for container in self._asked or [pod.default]
        }
        self._places.update(places)  # a rank of a pod that is gone may still be asked
        return list(places)

    def fetch_logs(self, folder: str) -> list[LogFile]:
        """What its containers have written, in files below a directory here."""
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
                wanted.append(Wanted(node, name, container, *about))
        return self._logs.fetch(wanted)

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
        }
        return ProcessChannel(
            node,
            self._pods.kubectl.exec_command(pod.name, container, self._line),
            landing_opening(node, scope),
            explain=partial(self._explain, pod, container),
        )

    def _next_step(self, pod: Pod, container: str) -> str:
        if container not in pod.containers:
            return f"-c {pod.default}"
        if pod.deleted and not pod.why_closed(container):
            return f"name it, to look at it all the same: -t k8s:{self._pods.namespace}/{pod.name}"
        words = ("logs", pod.name, "-c", container) if pod.containers[container].end else ()
        return self._pods.kubectl.shown(*(words or ("describe", "pod", pod.name)))

    # --- why it has ended -------------------------------------------------------------

    def _explain(self, pod: Pod, container: str, status: int | None, noise: bytes) -> RankdbgError:
        """What kubectl says and its exit status are little; what has become of the pod is
        more. (Status 0 and no word is what a restart of kubelet looks like.)"""
        kubectl = self._pods.kubectl
        said = last_words(noise) or f"exit status {status}"
        try:
            happened = self._news(pod, container, patient=status == KILLED)
        except RankdbgError as error:
            return NodeFailed(f"{kubectl.name} exec ended ({said}), and {error.what}")
        if happened:
            return NodeFailed(f"{happened} ({kubectl.name} exec: {said})", hint="ask again")
        place = f"container {container} of pod {pod.name}"
        if status == KILLED:
            what = f"rankdbg's process in {place} was killed ({said}); the container runs on"
            hint = f"its memory limit? {kubectl.shown('describe', 'pod', pod.name)}"
        elif status == 0:
            what = f"{kubectl.name} exec into {place} ended without a word, as it does when "
            what += "kubelet or the container runtime restarts"
            hint = "ask again"
        else:
            what = f"{kubectl.name} exec into {place}: {said}"
            hint = "the same without rankdbg: "
            hint += kubectl.shown("exec", pod.name, "-c", container, "--", "sh", "-c", "true")
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
    """Those that match the target, as they were when last looked at."""

    def __init__(self, namespace: str, what: str, kubectl: Kubectl) -> None:
        self.namespace = namespace
        self.kubectl = kubectl
        self._what = what
        self._by_name = _POD.fullmatch(what) is not None
        # Pods that nobody owns are one job, if one label holds them together.
        self.job = "" if self._by_name else what.partition(",")[0].rpartition("=")[2].strip()
        self._seen: Mapping[str, Pod] = {}
        self._failure: RankdbgError | None = None
        self._looked = float("-inf")
        self._lock = threading.Lock()

    def look(self, since: float, keep: bool = True) -> Mapping[str, Pod]:
        """As they are, not longer ago than that; many who ask at once share one look.

        With `keep`, what is known remains if the API server cannot be asked: the ways into
        the pods may be open all the same.
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

    def why_left_alone(self, pod: Pod) -> str:
        """A pod that is on its way out may have a successor already, with the same ranks."""
        if pod.deleted and not self._by_name:
            return f"pod {pod.name} is being deleted"
        return ""

    def _get(self, first: bool) -> Mapping[str, Pod]:
        words = ("pod", self._what) if self._by_name else ("pods", "-l", self._what)
        try:
            pods = _read(self.kubectl, words)
        except KubectlFailed as failure:
            if failure.reason != "NotFound":
                raise
            pods = {}
        if first and not pods:
            raise self._nothing()
        return pods

    def _nothing(self) -> RankdbgError:
        """A namespace that does not exist has no pods either, and kubectl leaves it at that."""
        try:
            self.kubectl.get("namespace", self.namespace)
        except KubectlFailed as failure:
            if failure.reason == "NotFound":
                what = f"there is no namespace {self.namespace!r}"
                return NoJob(what, hint=self.kubectl.namespaces_shown())
        except RankdbgError:
            pass  # who may not see namespaces may still see the pods in one
        if self._by_name:
            what = f"there is no pod {self._what!r} in the namespace {self.namespace!r}"
            return NoJob(what, hint=self.kubectl.shown("get", "pods"))
        what = f"no pod in the namespace {self.namespace!r} matches {self._what}"
        return NoJob(what, hint=self.kubectl.shown("get", "pods", "--show-labels"))


def _read(kubectl: Kubectl, words: tuple[str, ...]) -> Mapping[str, Pod]:
    document = kubectl.get(*words)
    try:
        return read_pods(document)
    except (KeyError, TypeError, AttributeError) as error:
        what = f"{kubectl.shown('get', *words)} printed what cannot be understood: {error!r}"
        raise NodeFailed(what) from None


def _parsed(rest: str) -> tuple[str, str]:
    namespace, _, what = rest.partition("/")
    hint = "rankdbg ps -t k8s:NAMESPACE/POD   (or -t k8s:NAMESPACE/label=value)"
    if not namespace or not what:
        raise BadInput("which pods?" if not rest else f"k8s:{rest} names no pods", hint=hint)
    if not _NAMESPACE.fullmatch(namespace):
        raise BadInput(f"{namespace!r} in k8s:{rest} is no name of a namespace", hint=hint)
    if not _POD.fullmatch(what) and not re.search(r"[=!]| in | notin ", what):
        raise BadInput(f"{what!r} in k8s:{rest} is neither a pod nor label=value", hint=hint)
    if what.startswith("-"):
        raise BadInput(f"{what!r} in k8s:{rest} is neither a pod nor label=value", hint=hint)
    return namespace, what


def _other_containers(pod: Pod, container: str) -> list[str]:
    others = [name for name, each in pod.containers.items() if name != container and each.running]
    if not others:
        return []
    names = ", ".join(others)
    return [f"pod {pod.name}: no ranks in container {container}; others: {names} (-c {others[0]})"]
