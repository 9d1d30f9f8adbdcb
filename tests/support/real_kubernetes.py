"""A real Kubernetes of one node, where the kit that makes one lies beside the checkout.

`kube up DIR` starts it as root; pods run this machine's own Python. One directory for each
checkout: what a run that was killed has left there is ended by the next, and two runs at once
take turns.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kubernetes_cluster import CHECKOUT
from waiting import PATIENCE, wait_for

KIT = CHECKOUT.parent / "shared" / "kubernetes" / "kube"
KIT_MACHINE = "aarch64"  # the kit refuses to start on any other
NAMESPACE = "train"
IMAGE = "host:1"  # almost empty: what runs in it is mounted


@contextlib.contextmanager
def running_kubernetes() -> Iterator[RealKubernetes]:
    if not KIT.exists():
        pytest.skip("no ../shared/kubernetes/kube here, which starts a real Kubernetes")
    if platform.machine() != KIT_MACHINE:
        pytest.skip(f"the programs of ../shared/kubernetes are for {KIT_MACHINE} machines")
    if os.geteuid() != 0:
        pytest.skip("needs root, for a real Kubernetes")
    name = hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:10]
    folder = Path(tempfile.gettempdir()) / f"rankdbg-kube-{name}"
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _kit("down", folder)  # of a run that was killed
        try:
            _kit("up", folder)
            yield RealKubernetes(folder)
        finally:
            _kit("down", folder, "--purge")


def _kit(verb: str, folder: Path, *words: str) -> str:
    command = [str(KIT), verb, str(folder), *words]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"kube {verb}: {done.stdout[-2000:]}"
    return done.stdout


class RealKubernetes:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ctl("create", "namespace", NAMESPACE, namespace="default")
        wait_for(lambda: self.list("serviceaccounts"), "the namespace's service account")

    def environment(self, user: str = "admin") -> dict[str, str]:
        """kubectl first on PATH, with the configuration of one of the kit's users."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "KUBECONFIG": str(self.folder / f"{user}.conf")}

    def ctl(self, *words: str, namespace: str = NAMESPACE, **settings: Any) -> str:
        done = subprocess.run(
            ["kubectl", *(["-n", namespace] if namespace else []), *words],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            **({"stdin": subprocess.DEVNULL} | settings if "input" not in settings else settings),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, kind: str, name: str) -> Any:
        return json.loads(self.ctl("get", kind, name, "-o", "json"))

    def list(self, kind: str, *words: str) -> list[Any]:
        items: list[Any] = json.loads(self.ctl("get", kind, *words, "-o", "json"))["items"]
        return items

    def apply(self, *documents: dict[str, Any]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*documents]})
        self.ctl("apply", "-f", "-", input=text)

    def delete(self, *names: str) -> None:
        """Pods, and wait until they are gone."""
        self.ctl("delete", "pod", "--grace-period=0", "--force", *names)

    def wait_for(self, pod: str, look: Callable[[Any], Any]) -> Any:
        """What is looked for in the status of a pod."""
        seen: list[Any] = [None]

        def found() -> Any:
            seen[0] = self.get("pod", pod)
            return look(seen[0]["status"])

        return wait_for(found, lambda: seen[0]["status"])

    def wait_until_running(self, *pods: str) -> None:
        for pod in pods:
            self.wait_for(pod, lambda status: status["phase"] == "Running")

    def kill(self, what: str) -> None:
        """One of its daemons, for good."""
        status = _kit("status", self.folder)
        (pid,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith(what))
        os.kill(pid, signal.SIGKILL)

    @contextlib.contextmanager
    def freeze(self, what: str) -> Iterator[None]:
        """One of its daemons does nothing for a while."""
        _kit("freeze", self.folder, what)
        try:
            yield
        finally:
            _kit("thaw", self.folder, what)


def pod(
    name: str,
    *containers: dict[str, Any],
    labels: dict[str, str] | None = None,
    places: Sequence[str] = ("/usr", "/opt", "/etc"),
    **spec: Any,
) -> dict[str, Any]:
    """With these directories of the machine, this Python and the checkout in every container."""
    places = _outermost([*places, sys.prefix, sys.base_prefix, str(CHECKOUT)])
    volumes = [
        {"name": f"m{number}", "hostPath": {"path": place}} for number, place in enumerate(places)
    ]
    mounts = [
        {"name": f"m{number}", "mountPath": place, "readOnly": True}
        for number, place in enumerate(places)
    ]
    for each in containers:
        each["volumeMounts"] = [*mounts, *each.pop("mounts", [])]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels or {}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "containers": [*containers],
            **spec,
            "volumes": [*volumes, *spec.get("volumes", [])],
        },
    }


def container(
    command: Sequence[object], name: str = "main", env: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    variables = [{"name": key, "value": value} for key, value in (env or {}).items()]
    words = [str(word) for word in command]
    return {"name": name, "image": IMAGE, "command": words, "env": variables, **more}


def _outermost(places: Sequence[str]) -> list[str]:
    return sorted({place for place in places if not _is_below(place, places)})


def _is_below(place: str, others: Sequence[str]) -> bool:
    return any(place != other and Path(place).is_relative_to(other) for other in others)
