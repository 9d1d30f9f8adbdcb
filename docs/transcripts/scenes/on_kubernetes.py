"""Pods of a real Kubernetes of one node, where the kit that starts one lies beside the checkout."""

from __future__ import annotations

import os
import sys
from typing import Any

from jobs import PROGRAMS
from real_kubernetes import RealKubernetes, container, pod, running_kubernetes
from transcripts.machine import CHECKOUT
from transcripts.scenario import NotRun, Play, Scene, wait_until

TARGET = "k8s:train/app=llama"
LLAMA = {"app": "llama"}
PTRACE = {"capabilities": {"add": ["SYS_PTRACE"]}}
EATS = "x = bytearray(300_000_000)"
SMALL = {"limits": {"memory": "64Mi"}}
BEHAVIOURS = ("waits", "waits", "waits_elsewhere", "waits")


def two_pods(play: Play) -> None:
    with running_kubernetes() as kubernetes:
        _use(kubernetes)
        kubernetes.apply(_ranks("worker-0", 0, 1), _ranks("worker-1", 2, 3))
        kubernetes.wait_until_running("worker-0", "worker-1")
        wait_until(f"rankdbg ps -t {TARGET}", "<- alone here")
        play.run("<- alone here")
        play.run("<- odd one out", RANKDBG_TARGET=TARGET)
        play.run("all ranks have one", beginning="rankdbg check")
        sidecar = container(["sleep", "3600"], name="sidecar")
        kubernetes.apply(pod("worker-9", sidecar, _python(0), labels={"app": "other"}))
        kubernetes.wait_until_running("worker-9")
        play.run("others: main")
        kubernetes.apply(_ranks("worker-2", 4, 5, nodeSelector={"gpu": "h100"}))
        play.run("Pending")
        kubernetes.delete("worker-2")
        eats = container([sys.executable, "-c", EATS], resources=SMALL)
        kubernetes.apply(pod("worker-2", eats, labels=LLAMA))
        wait_until("kubectl -n train get pod worker-2", "CrashLoopBackOff")
        play.run("k8s_oomkilled")


def _use(kubernetes: RealKubernetes) -> None:
    for name in ("PATH", "KUBECONFIG"):
        os.environ[name] = kubernetes.environment()[name]


def _ranks(name: str, *numbers: int, **spec: Any) -> dict[str, Any]:
    """A pod with these ranks, each with an agent."""
    line = " ".join(f"RANK={number} LOCAL_RANK={number % 2} {_BEHAVE} &" for number in numbers)
    more = {"securityContext": PTRACE, "env": _environment()}
    return pod(name, container(["sh", "-c", f"{line} wait"], **more), labels=LLAMA, **spec)


def _python(number: int) -> dict[str, Any]:
    env = {**_environment(), "RANK": str(number)}
    return container([sys.executable, PROGRAMS / "behave.py", *BEHAVIOURS], env=env)


def _environment() -> dict[str, str]:
    names = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    # What is installed in the pod is the checkout, wherever it was installed from.
    return {**names, "RANKDBG": "1", "RANKDBG_JOB": "llama", "PYTHONPATH": str(CHECKOUT / "src")}


_BEHAVE = f"{sys.executable} {PROGRAMS / 'behave.py'} {' '.join(BEHAVIOURS)}"

SCENARIO = [
    Scene(
        two_pods,
        (
            f"rankdbg ps -t {TARGET}",
            "rankdbg stacks",
            "rankdbg ps -t k8s:train/worker-9",
            f"rankdbg ps -t {TARGET}",
            f"rankdbg doctor -t {TARGET}",
            f"rankdbg check -t {TARGET}",
        ),
    ),
    NotRun(
        "a container has to be killed while it is asked",
        ("rankdbg> ask all __import__", "rankdbg> ask all loss"),
    ),
]
