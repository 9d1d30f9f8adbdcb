"""What has become of a pod, from what the API server says about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rankdbg.clusters.kubernetes.kubectl import last_line
from rankdbg.clusters.kubernetes.pods import Container, Pod, read_pods, what_happened

MAIN = Container("main", "containerd://a", 0, running=True)
POD = Pod("a", "uid-1", "Running", {"main": MAIN, "side": Container("side")}, "main")


def with_main(**changes: Any) -> Pod:
    return replace(POD, containers={"main": replace(MAIN, **changes)})


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        (POD, ""),
        (None, "pod a was deleted"),
        (replace(POD, uid="uid-2"), "pod a was deleted and created again"),
        (replace(POD, deleted=True), "pod a is being deleted"),
        (with_main(ident="containerd://b", restarts=1), "container main of pod a was restarted"),
        (
            with_main(ident="containerd://b", restarts=1, end="OOMKilled, exit code 137"),
            "container main of pod a was restarted: OOMKilled, exit code 137",
        ),
        (
            with_main(running=False, state="CrashLoopBackOff", end="Error, exit code 1"),
            "container main of pod a does not run (the pod is Running): "
            "CrashLoopBackOff; it ended earlier: Error, exit code 1",
        ),
        (
            replace(with_main(running=False, end="Completed, exit code 0"), phase="Succeeded"),
            "pod a has ended: Succeeded: Completed, exit code 0",
        ),
    ],
)
def test_what_happened(after: Pod | None, sentence: str) -> None:
    """uid, restarts and the container's id tell a restart from a deletion and from neither."""
    assert what_happened(POD, "main", after) == sentence


@pytest.mark.parametrize(
    ("labels", "owner", "job"),
    [
        ({}, None, ""),
        ({}, {"name": "trainer", "controller": True}, "trainer"),
        ({"job-name": "one"}, {"name": "other", "controller": True}, "one"),
        ({"job-name": "llama-workers-0", "jobset.sigs.k8s.io/jobset-name": "llama"}, None, "llama"),
    ],
)
def test_the_job_of_a_pod(labels: dict[str, str], owner: Any, job: str) -> None:
    """By its label, the outermost first, else by its owner."""
    about = {"name": "a", "labels": labels, "ownerReferences": [owner] if owner else None}
    pods = read_pods({"kind": "Pod", "metadata": about, "status": {}})
    assert pods["a"].job == job


def test_containers_of_all_kinds() -> None:
    """Sidecars and those of `kubectl debug` can be entered too; the first is the default."""
    spec = {
        "initContainers": [{"name": "proxy"}],
        "containers": [{"name": "main"}],
        "ephemeralContainers": [{"name": "debugger"}],
    }
    running = {"state": {"running": {}}}
    status = {"phase": "Running", "ephemeralContainerStatuses": [{"name": "debugger", **running}]}
    listed = {
        "kind": "List",
        "items": [{"metadata": {"name": "a"}, "spec": spec, "status": status}],
    }
    pod = read_pods(listed)["a"]
    assert list(pod.containers) == ["main", "proxy", "debugger"]
    assert pod.default == "main"
    assert [name for name in pod.containers if not pod.why_closed(name)] == ["debugger"]


def test_last_line() -> None:
    """kubectl's own last line, not what its libraries log after it."""
    noise = b"E0102 03:04:05.678901   42 websocket.go:296] Unknown stream id 1\n"
    assert last_line(noise + b"error: unable\n" + noise) == "error: unable"
    assert last_line(noise).startswith("E0102")
    assert last_line(b"") == ""
    ended = b"command terminated with exit code 1\n"
    assert last_line(b"sh: no\n" + ended) == "sh: no (command terminated with exit code 1)"
