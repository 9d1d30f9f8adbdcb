"""Containers that failed, from what the API server says of their pods."""

from __future__ import annotations

from typing import Any

import pytest

from rankdbg.clusters.kubernetes.pods import failure_of, read_events, read_pods
from rankdbg.logs.patterns import FileScan, Hit
from rankdbg.logs.places import LogFile
from rankdbg.types import ContainerFailure
from rankdbg.verdicts.failures.pod_failures import describe, mode_of, pod_scans
from rankdbg.verdicts.failures.root_causes import diagnose
from rankdbg.verdicts.rules.log_rules import load_rules

RUNS = {"running": {"startedAt": "2026-01-02T03:04:05Z"}}


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {
        "terminated": {"exitCode": code, "reason": reason, "finishedAt": "2026-01-02T03:04:05Z"}
    }


def waits(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def failure(
    state: dict[str, Any], last: dict[str, Any] | None = None, events: Any = (), **status: Any
) -> ContainerFailure | None:
    about = {"name": "main", "state": state, "lastState": last or {}, "restartCount": 3}
    limits = {"resources": {"limits": {"memory": "64Mi"}}}
    document = {
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", **limits}]},
        "status": {"phase": "Running", "containerStatuses": [about], **status},
    }
    return failure_of(read_pods(document)["a"], "main", read_events({"items": events}))


@pytest.mark.parametrize(
    ("state", "last", "mode", "text"),
    [
        (
            waits("CrashLoopBackOff", "back-off 10s"),
            ended(137, "OOMKilled"),
            "k8s_oomkilled",
            "OOMKilled, exit code 137, memory limit 64Mi, 3 restarts, n1",
        ),
        (
            RUNS,
            ended(137),
            "k8s_container_killed",
            "Error, exit code 137, memory limit 64Mi, 3 restarts (runs now), n1",
        ),
        (
            ended(139),
            {},
            "k8s_container_failed",
            "Error, exit code 139 (SIGSEGV), memory limit 64Mi, 3 restarts, n1",
        ),
        (
            waits("ErrImagePull", "no such image"),
            {},
            "k8s_image_pull_failed",
            "ErrImagePull, 3 restarts, n1: no such image",
        ),
        (
            waits("CreateContainerConfigError", "secret not found"),
            {},
            "k8s_container_not_started",
            "CreateContainerConfigError, 3 restarts, n1: secret not found",
        ),
    ],
)
def test_what_failed(state: Any, last: Any, mode: str, text: str) -> None:
    """By Kubernetes' own words and the exit code, with limit, restarts and node."""
    found = failure(state, last)
    assert found is not None
    assert (mode_of(found), describe(found)) == (mode, text)


@pytest.mark.parametrize(
    ("state", "last"),
    [
        (RUNS, {}),
        (RUNS, ended(0, "Completed")),
        (ended(0, "Completed"), {}),
        (waits("ContainerCreating"), {}),
    ],
)
def test_what_did_not_fail(state: Any, last: Any) -> None:
    """A container that runs, has done its work, or is being made."""
    assert failure(state, last) is None


def test_a_warning_tells_why_a_pod_does_not_start() -> None:
    """ContainerCreating for ever, of which only an event knows the reason."""
    event = {
        "involvedObject": {"kind": "Pod", "name": "a"},
        "reason": "FailedMount",
        "message": "configmap not found",
        "count": 4,
    }
    found = failure(waits("ContainerCreating"), events=[event])
    assert found is not None
    assert mode_of(found) == "k8s_container_not_started"
    assert found.events == ("FailedMount (4 times): configmap not found",)


def test_what_a_container_wrote_came_before_its_end() -> None:
    """Also where its lines have no clock; and an exit code is a consequence of an error."""
    rules = load_rules()
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    log = FileScan(
        "log of a", (Hit("failure:cuda_oom", 1, 0, line, line, ""),), file=LogFile("a", "log of a")
    )
    for last, roles in (
        (ended(137, "OOMKilled"), [("cuda_oom", "root"), ("k8s_oomkilled", "other")]),
        (ended(1), [("cuda_oom", "root"), ("k8s_container_failed", "consequence")]),
    ):
        found = failure(RUNS, last)
        assert found is not None
        told = diagnose([log, *pod_scans([found], [log], {"a": [3]})], rules).failures
        assert [(each.mode, each.role) for each in told] == roles
        assert told[1].ranks == (3,)
