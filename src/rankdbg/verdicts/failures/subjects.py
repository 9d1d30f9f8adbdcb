"""Whom a line is about: the killed pid, the GPU on a bus, the node that was given up, the peer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankdbg.logs.expressions import expression
from rankdbg.verdicts.failures.identities import Identities, Identity
from rankdbg.verdicts.failures.pod_rows import row_pod
from rankdbg.verdicts.rules.log_rules import FailureRule

# An expression may have each group once, so that the same thing has several names.
HOSTS = ("host", "address", "node", "ip")
PIDS = ("pid", "killed", "reaped")
_PORT = re.compile(r"(<\d+>|:\d+)$")
_POD = re.compile(
    r"(?i)\b(?:pods?|nodes?)/(?P<host>[a-z0-9][a-z0-9.-]*)\b"
)  # as Kubernetes' events name it
_NODE_ROW = re.compile(r"(?:^|\s)nodes?/(?P<host>[a-z0-9][a-z0-9.-]*)\s")
_KUBELET = re.compile(r'\bpod="(?P<space>[a-z0-9-]+)/(?P<pod>[a-z0-9][a-z0-9.-]*)"')
_AGED = re.compile(
    r"^\s*(?:<unknown>|(?:\d{1,4}[smhd])+(?: \(x\d+ over \S+\))?)\s+(?:Normal|Warning)\s"
)


def is_aged(text: str) -> bool:
    """Whether it is a row of events that says only how long ago each was."""
    return bool(_AGED.match(text))


def pods_named(text: str) -> set[tuple[str, str]]:
    """Those of which a kubelet tells, with their namespaces: pod="train/trainer-0"."""
    return {(found["space"], found["pod"]) for found in _KUBELET.finditer(text)}


def pod_in(text: str) -> str:
    """The pod or node of which an event of Kubernetes tells, or ``."""
    found = _POD.search(text)
    return found["host"] if found else ""


def node_in(text: str) -> str:
    """The node of which a row of Kubernetes' events tells, or ``."""
    found = _NODE_ROW.search(text)
    return found["host"] if found else ""


@dataclass(frozen=True)
class Subject:
    host: str = ""
    rank: int | None = None
    pid: int | None = None
    peer: str = ""
    told: bool = False  # whether the line names it; else it is the writer itself


def read_subject(rule: FailureRule, text: str, writer: Identity, identities: Identities) -> Subject:
    match = expression(rule.about, f"rule {rule.mode}: about").search(text) if rule.about else None
    groups = {name: value for name, value in match.groupdict().items() if value} if match else {}
    peer = _host(groups.get("peer", ""), identities)
    actor = identities.place_of_actor(groups.pop("actor", ""))
    if actor is not None:
        return Subject(actor.host, actor.rank, actor.pid, told=True)
    if not groups:
        pod = row_pod(text) or ("" if writer.host else pod_in(text))
        groups = {"host": pod} if pod else {}
    if not groups.keys() - {"peer"}:
        return Subject(writer.host, writer.rank, writer.pid, peer)
    name = next((groups[word] for word in HOSTS if word in groups), "")
    host = _host(name, identities) or writer.host or pod_in(text)
    number = next((groups[word] for word in PIDS if word in groups), "")
    pid = int(number) if number.isdigit() else identities.pid_of_worker(groups.get("worker", ""))
    rank = int(groups["rank"]) if groups.get("rank", "").isdigit() else None
    if rank is None and pid is not None:
        rank = identities.rank_of_pid(host, pid)
    if rank is None and "bus" in groups:
        rank = identities.rank_of_gpu(host, groups["bus"])
    if rank is None and "device" in groups:
        rank = identities.rank_of_device(host, int(groups["device"]))
    return Subject(host, rank, pid, peer, told=True)


def _host(name: str, identities: Identities) -> str:
    return identities.host_named(_PORT.sub("", name)) if name else ""
