"""Pods on this machine: real processes in namespaces of their own, behind a strict kubectl.

Each container has its own mount, PID and host name namespaces and its own temporary
directories. tests/fakes/kubectl reads what is written here, as the real one asks the API
server.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from waiting import PATIENCE, processes_beside, wait_for

FAKES = Path(__file__).parents[1] / "fakes"
NODE = "machine-1"

CHECKOUT = Path(__file__).resolve().parents[2]
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")

# The checkout is the image's: it stays, also where it lies in a temporary directory.
_START = (
    'hostname "$1"; shift; image="$1"; shift; '
    '[ -z "$image" ] || mount --bind "$image" /mnt; '
    f"for place in {' '.join(_TEMPORARY)}; do mount -t tmpfs none $place; done; "
    '[ -z "$image" ] || { mkdir -p "$image" && mount --move /mnt "$image"; }; '
    'exec "$@"'
)


def _reason_not_here() -> str:
    if os.geteuid() != 0:
        return "needs root, for namespaces"
    missing = [name for name in ("unshare", "nsenter", "setpriv") if shutil.which(name) is None]
    return f"needs {', '.join(missing)}" if missing else ""


class Kubernetes:
    def __init__(self, scratch: Path) -> None:
        if reason := _reason_not_here():
            pytest.skip(reason)
        self.scratch = scratch
        self.path = scratch / "bin"
        self._containers: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
        self._commands: dict[tuple[str, str], dict[str, Any]] = {}
        self._begins: dict[tuple[str, str], list[int]] = {}
        self._made = 0
        for directory in (
            self.path,
            scratch / "pods/train",
            scratch / "containers",
            scratch / "logs",
        ):
            directory.mkdir(parents=True)
        for name in ("kubectl", "oc"):
            (self.path / name).symlink_to(FAKES / name)
        (self.path / "python3").symlink_to(os.path.realpath(sys.executable))  # for these two

    def environment(self) -> dict[str, str]:
        path = f"{self.path}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "FAKE_KUBERNETES": str(self.scratch)}

    # --- pods -------------------------------------------------------------------------

    def start(
        self,
        name: str,
        containers: dict[str, dict[str, Any]],
        labels: dict[str, str] | None = None,
    ) -> None:
        """Containers by name: command, environment, and what exec finds there (prefix, lacks)."""
        statuses = [
            self._start_container(name, container, settings)
            for container, settings in containers.items()
        ]
        self.write(name, list(containers), "Running", statuses, labels)

    def write(
        self,
        name: str,
        containers: Sequence[str],
        phase: str,
        statuses: Sequence[dict[str, Any]],
        labels: dict[str, str] | None = None,
        **status: Any,
    ) -> None:
        """A pod as the API server knows it."""
        self._made += 1
        about = {"name": name, "namespace": "train", "uid": f"uid-{self._made}"}
        spec: dict[str, Any] = {"containers": [{"name": each} for each in containers]}
        if not status.get("conditions"):
            spec["nodeName"] = NODE
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**about, "labels": labels or {}},
            "spec": spec,
            "status": {"phase": phase, "containerStatuses": list(statuses), **status},
        }
        self._save(f"pods/train/{name}.json", document)

    def change(self, name: str, how: Callable[[dict[str, Any]], None]) -> None:
        path = self.scratch / f"pods/train/{name}.json"
        document = json.loads(path.read_text())
        how(document)
        self._save(f"pods/train/{name}.json", document)

    def restart(self, name: str, container: str, reason: str = "Error") -> None:
        """The container is killed, and another takes its place; the API server hears later."""
        self._kill(name, container)
        settings = self._commands[name, container]
        status = self._start_container(name, container, settings)

        def put(document: dict[str, Any]) -> None:
            (old,) = (s for s in document["status"]["containerStatuses"] if s["name"] == container)
            status["restartCount"] = old["restartCount"] + 1
            status["lastState"] = {"terminated": {"exitCode": 137, "reason": reason}}
            old.clear()
            old.update(status)

        self.change(name, put)

    def delete(self, name: str) -> None:
        for pod, container in list(self._containers):
            if pod == name:
                self._kill(pod, container)
        (self.scratch / f"pods/train/{name}.json").unlink()

    def behave(self, **how: str) -> None:
        """From now on, until told otherwise."""
        self._save("behaviour.json", how)

    def end(self) -> None:
        for name, container in list(self._containers):
            self._kill(name, container)

    # --- what goes on in them ---------------------------------------------------------

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.path / words[0]), *words[1:]],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def processes(self, pod: str, container: str, word: str) -> list[int]:
        """Those in a container with that word in their command line."""
        return processes_beside(self._init(pod, container), word)

    def root(self, pod: str, container: str) -> Path:
        """The container's files."""
        return Path(f"/proc/{self._init(pod, container)}/root")

    def calls(self) -> list[str]:
        """Each kubectl that was called."""
        return (self.scratch / "calls").read_text().splitlines()

    # --- containers -------------------------------------------------------------------

    def _start_container(self, name: str, container: str, settings: dict[str, Any]) -> Any:
        self._commands[name, container] = settings
        environment = {"PATH": os.environ["PATH"], "HOME": "/root", **settings["environment"]}
        hidden = any(CHECKOUT.is_relative_to(place) for place in _TEMPORARY)
        image = str(CHECKOUT) if hidden else ""
        words = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--uts", "--kill-child"]
        with (self.scratch / f"{name}-{container}.log").open("ab") as log:
            # Where the output of each container in its place begins.
            self._begins.setdefault((name, container), []).append(log.tell())
            self._save(f"logs/{name}-{container}.json", self._begins[name, container])
            process = subprocess.Popen(
                [
                    *words,
                    "/bin/sh",
                    "-c",
                    _START,
                    "sh",
                    name,
                    image,
                    *map(str, settings["command"]),
                ],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        self._containers[name, container] = process
        wait_for(lambda: self._has_begun(name, container))
        ident = os.urandom(8).hex()
        inside = {
            "init": self._init(name, container),
            "environment": environment,
            "prefix": settings.get("prefix", []),
            "lacks": settings.get("lacks", []),
        }
        self._save(f"containers/{ident}", inside)
        return {
            "name": container,
            "containerID": f"containerd://{ident}",
            "restartCount": 0,
            "ready": True,
            "state": {"running": {"startedAt": "2025-01-02T03:04:05Z"}},
            "lastState": {},
        }

    def _has_begun(self, name: str, container: str) -> bool:
        """Its shell has made its directories and has become the command."""
        process = self._containers[name, container]
        assert process.poll() is None, (self.scratch / f"{name}-{container}.log").read_text()
        try:
            words = Path(f"/proc/{self._init(name, container)}/cmdline").read_bytes()
        except (OSError, IndexError):
            return False
        return _START.encode() not in words and words != b""

    def _init(self, name: str, container: str) -> int:
        pid = self._containers[name, container].pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def _kill(self, name: str, container: str) -> None:
        """The first process of a PID namespace takes all others with it."""
        process = self._containers.pop((name, container))
        try:
            pid = int(
                Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
            )
            os.kill(pid, signal.SIGKILL)
        except (OSError, IndexError):
            pass
        process.wait(PATIENCE)

    def _save(self, place: str, content: Any) -> None:
        """Whole, or not at all: kubectl reads it at any time."""
        path = self.scratch / place
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(json.dumps(content))
        partial.rename(path)
