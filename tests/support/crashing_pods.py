"""Jobs that really crash in pods of a real Kubernetes. As a program it records their logs anew,
beside those of crashing_jobs.py:

    python tests/support/crashing_pods.py [NAME ...]

What is kept is what people attach: kubectl logs of each pod, kubectl describe and get pods, and the
events of the namespace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from crashing_clusters import ClusterJob, record
from crashing_jobs import RANK, packages
from real_kubernetes import KIT, RealKubernetes, container, pod, running_kubernetes
from waiting import wait_for

PODS = 3
BAD = 1  # the rank that has the fault
LABELS = {"app": "train"}
SCRATCH = "/scratch"
ABSENT = "train:2"  # an image that is nowhere, until it is made
EVERYWHERE = ("/usr", "/opt", "/etc")


@dataclass(frozen=True)
class PodsJob(ClusterJob):
    """`action`: what is done to the job while it runs, a function in ACTIONS."""

    gloo: bool = False
    restarts: str = "Never"
    limit: str = ""  # the memory of the rank that has the fault
    image: str = ""  # of the rank that has the fault
    node: str = ""  # a label that its node must have
    probe: bool = False  # whether Kubernetes looks if it lives
    forever: bool = False  # its pods do not all end: they fail again, or never start


LOST = ("k8s_pod_deleted",)
PODS_JOBS = {
    "pods_out_of_memory": PodsJob("eat_memory", ("k8s_oomkilled",), 1, "train-1", gloo=True, limit="400Mi"),
    "pods_killed": PodsJob("nothing", ("k8s_container_killed",), 1, "train-1", "kill"),
    "pods_exception": PodsJob("raise_error", ("python_error",), 1, "train-1"),
    "pods_crash_loop": PodsJob("raise_error", ("python_error",), 1, "train-1", restarts="OnFailure", forever=True),
    "pods_restart_helps": PodsJob("fail_once_in_a_pod", (), restarts="OnFailure"),
    "pods_deleted": PodsJob("nothing", LOST, None, "train-1", "delete", gloo=True),
    "pods_deleted_and_replaced": PodsJob("nothing", (), action="replace"),
    "pods_evicted": PodsJob("fill_the_scratch", ("k8s_evicted_ephemeral_storage",), 1, "train-1"),
    "pods_without_image": PodsJob("nothing", ("k8s_image_pull_failed",), 1, "train-1", image=ABSENT, gloo=True, forever=True),
    "pods_image_arrives": PodsJob("nothing", (), image=ABSENT, action="make_image"),
    "pods_without_room": PodsJob("nothing", ("k8s_pod_not_scheduled",), 1, "train-1", node="big", gloo=True, forever=True),
    "pods_room_later": PodsJob("nothing", (), node="big", action="make_room"),
    "pods_not_alive": PodsJob("hang", ("k8s_container_killed",), 1, "train-1", probe=True),
    "pods_finished": PodsJob("nothing", ()),
}  # fmt: skip


def run_in_pods(cluster: RealKubernetes, job: PodsJob, folder: Path) -> None:
    cluster.ctl("delete", "events", "--all")
    try:
        _start(cluster, job)
        if job.action:
            ACTIONS[job.action](cluster, folder)
        wait_for(lambda: _is_over(cluster, job), lambda: cluster.ctl("get", "pods"))
        _collect(cluster, folder)
    finally:
        cluster.ctl("delete", "pod", "-l", "app=train")


def _start(cluster: RealKubernetes, job: PodsJob) -> None:
    """The first has the address at which they meet."""
    cluster.apply(_pod(job, 0, "train-0"))
    master = cluster.wait_for("train-0", lambda status: status.get("podIP"))
    cluster.apply(*(_pod(job, rank, master) for rank in range(1, PODS)))


def _pod(job: PodsJob, rank: int, master: str) -> dict[str, Any]:
    env = {"RANK": str(rank), "WORLD_SIZE": str(PODS), "BAD": str(BAD), "STEPS": _steps(job)}
    env |= {"MASTER_ADDR": master, "MASTER_PORT": "29511", "PYTHONUNBUFFERED": "1"}
    env |= {"OMP_NUM_THREADS": "1", "SCRATCH": SCRATCH}
    more: dict[str, Any] = {"mounts": [{"name": "scratch", "mountPath": SCRATCH}]}
    spec: dict[str, Any] = {"restartPolicy": job.restarts, "terminationGracePeriodSeconds": 1}
    if rank == BAD:
        more |= {"resources": {"limits": {"memory": job.limit}}} if job.limit else {}
        more |= {"image": job.image} if job.image else {}
        more |= {"livenessProbe": _PROBE} if job.probe else {}
        spec |= {"nodeSelector": {job.node: "yes"}} if job.node else {}
    words = [sys.executable, RANK, job.fault, "-", "gloo" if job.gloo else ""]
    volume = {"name": "scratch", "emptyDir": {"sizeLimit": "4Mi"}}
    made = container(words, env=env, **more)
    return pod(f"train-{rank}", made, labels=LABELS, places=_places(), volumes=[volume], **spec)


def _steps(job: PodsJob) -> str:
    """Many, where something is done to the job on its way."""
    return "600" if job.action in ("kill", "delete") else "60" if job.action else "12"


_PROBE = {
    "exec": {"command": ["sh", "-c", "exit 1"]},
    "initialDelaySeconds": 4,
    "periodSeconds": 1,
    "failureThreshold": 2,
}


def _places() -> list[str]:
    """What a rank reads: also where the packages of this Python are only links."""
    return [*EVERYWHERE, packages()]


def _is_over(cluster: RealKubernetes, job: PodsJob) -> bool:
    pods = cluster.list("pods", "-l", "app=train")
    ended = [each for each in pods if each["status"]["phase"] in ("Succeeded", "Failed")]
    others = [each for each in pods if each not in ended]
    if not job.forever:
        return not others
    bad = [each for each in others if each["metadata"]["name"] == f"train-{BAD}"]
    return len(others) == len(bad) == 1 and _fails_for_ever(bad[0])


def _fails_for_ever(bad: dict[str, Any]) -> bool:
    """Or cannot start."""
    states = bad["status"].get("containerStatuses", [])
    waits = [each["state"].get("waiting", {}).get("reason") for each in states]
    again = sum(each["restartCount"] for each in states) >= 2
    return not states or "ImagePullBackOff" in waits or ("CrashLoopBackOff" in waits and again)


# --- what is done to a job ------------------------------------------------------------------------


def _kill(cluster: RealKubernetes, folder: Path) -> None:
    """From outside of the container: in there its first process cannot be killed."""
    _wait_for_steps(cluster, 3)
    marks = [f"RANK={BAD}".encode(), b"HOSTNAME=train-1"]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if all(mark in variables for mark in marks):
            os.kill(int(entry.name), signal.SIGKILL)
    cluster.wait_for("train-1", lambda status: status["phase"] == "Failed")
    for rank in range(PODS):  # what a controller does with the others
        if rank != BAD:
            _save_log(cluster, f"train-{rank}", folder)
            cluster.ctl("delete", "pod", "--grace-period=1", f"train-{rank}")


def _delete(cluster: RealKubernetes, folder: Path) -> None:
    _wait_for_steps(cluster, 3)
    _save_log(cluster, "train-1", folder)
    cluster.ctl("delete", "pod", "--grace-period=1", "train-1")


def _replace(cluster: RealKubernetes, folder: Path) -> None:
    """As a rollout does."""
    _wait_for_steps(cluster, 3)
    _save_log(cluster, "train-1", folder, "train-1.first.log")
    cluster.ctl("delete", "pod", "--grace-period=1", "train-1")
    cluster.apply(_pod(PODS_JOBS["pods_deleted_and_replaced"], 1, ""))


def _make_image(cluster: RealKubernetes, folder: Path) -> None:
    cluster.wait_for("train-1", lambda status: _waits_for_image(status))
    with tempfile.TemporaryDirectory() as root:
        for place in ("usr", "opt", "etc", "tmp", "proc", "sys", "dev", "work", "scratch"):
            (Path(root) / place).mkdir()
        for link in ("bin", "sbin", "lib", "lib64"):
            if os.path.islink(f"/{link}"):
                (Path(root) / link).symlink_to(os.readlink(f"/{link}"))
        words = [str(KIT), "image", str(cluster.folder), ABSENT, root]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, capture_output=True)


def _waits_for_image(status: dict[str, Any]) -> bool:
    states = [each["state"].get("waiting", {}) for each in status.get("containerStatuses", [])]
    return any(each.get("reason") in ("ErrImagePull", "ImagePullBackOff") for each in states)


def _make_room(cluster: RealKubernetes, folder: Path) -> None:
    def is_known() -> bool:
        return any(each["reason"] == "FailedScheduling" for each in cluster.list("events"))

    wait_for(is_known, "an event")
    cluster.ctl("label", "nodes", "--all", "big=yes", namespace="")


def _wait_for_steps(cluster: RealKubernetes, step: int) -> None:
    for rank in range(PODS):
        name = f"train-{rank}"
        cluster.wait_until_running(name)
        logs = partial(cluster.ctl, "logs", name)
        wait_for(lambda logs=logs: f" step {step} " in logs(), logs)


ACTIONS: dict[str, Callable[[RealKubernetes, Path], None]] = {
    "kill": _kill,
    "delete": _delete,
    "replace": _replace,
    "make_image": _make_image,
    "make_room": _make_room,
}


# --- what people attach ---------------------------------------------------------------------------


def _collect(cluster: RealKubernetes, folder: Path) -> None:
    for each in cluster.list("pods", "-l", "app=train"):
        name = each["metadata"]["name"]
        states = each["status"].get("containerStatuses", [])
        if any(
            "running" in s["state"] or "terminated" in {**s["state"], **s["lastState"]}
            for s in states
        ):
            _save_log(cluster, name, folder)
        if any(state["restartCount"] for state in states):
            with suppress(AssertionError):  # Kubernetes keeps one that has ended
                _save_log(cluster, name, folder, f"{name}.previous.log", "--previous")
    (folder / "describe.txt").write_text(cluster.ctl("describe", "pods", "-l", "app=train"))
    (folder / "pods.txt").write_text(cluster.ctl("get", "pods", "-l", "app=train", "-o", "wide"))
    (folder / "events.txt").write_text(cluster.ctl("get", "events"))


def _save_log(
    cluster: RealKubernetes, name: str, folder: Path, file: str = "", *words: str
) -> None:
    (folder / (file or f"{name}.log")).write_text(cluster.ctl("logs", name, *words))


def main(names: list[str]) -> None:
    with running_kubernetes() as cluster:
        for name in PODS_JOBS:
            if name in names:
                record(name, partial(run_in_pods, cluster, PODS_JOBS[name]))


if __name__ == "__main__":
    main(sys.argv[1:] or [*PODS_JOBS])
