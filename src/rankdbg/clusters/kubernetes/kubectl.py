"""kubectl or oc: command lines and error messages.

Authentication, proxies and the choice of the cluster are left to it, with the user's
configuration and environment.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from typing import Any

from rankdbg.clusters import Options
from rankdbg.clusters.kubernetes.kubectl_errors import (
    missing_permission,
    reason_of,
    without_queries,
)
from rankdbg.errors import BadInput, NodeFailed

# If the API server hangs, kubectl itself waits for a minute.
GET_SECONDS = 10.0

# What kubectl's libraries log: `E0102 03:04:05.678901   42 websocket.go:296] Unknown stream`.
_LOGGED = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ ")


class KubectlFailed(NodeFailed):
    """kubectl failed. `reason` is the reason given by Kubernetes, if there is one."""

    def __init__(self, what: str, words: str, hint: str) -> None:
        self.reason = reason_of(words)
        super().__init__(f"{what}: {words}", hint=hint)


class Kubectl:
    def __init__(self, namespace: str, options: Options) -> None:
        self._program = _find_program(options.kubectl)
        self.name = os.path.basename(self._program[0])
        self._context = ["--context", options.context] if options.context else []
        self._get_seconds = options.tolerance(GET_SECONDS)
        self._where = [*self._context, *(["-n", namespace] if namespace else [])]

    def exec_command(self, pod: str, container: str, line: str) -> list[str]:
        """Never with a terminal (-t): that would change the bytes."""
        words = ("exec", "-i", pod, "-c", container, "--", *shell_words(line))
        return [*self._program, *self._where, *words]

    @property
    def of_cluster(self) -> list[str]:
        """The command, with the options that choose the cluster."""
        return [*self._program, *self._context]

    def command(self, *words: str) -> list[str]:
        return [*self._program, *self._where, *words]

    def shown(self, *words: str) -> str:
        """As the user would type it."""
        return shlex.join([self.name, *self._where, *words])

    def namespaces_shown(self) -> str:
        """The command that lists namespaces. On OpenShift users may list their projects."""
        kind = "projects" if self.name == "oc" else "namespaces"
        return shlex.join([self.name, *self._context, "get", kind])

    def get(self, *words: str) -> Any:
        """An object from the API server. If the server is down, kubectl prints a valid, empty
        list: the exit status is checked first."""
        status, output, complaint = self._run(["get", *words, "-o", "json"])
        if status != 0:
            said = last_line(complaint) or f"exit status {status}"
            if not reason_of(said):
                self._check_configuration()
            words_of_kubectl = said.removeprefix("error: ")
            raise KubectlFailed(self.shown("get", *words), words_of_kubectl, self.next_step(said))
        if not output.strip():  # with --ignore-not-found
            return {"kind": "List", "items": []}
        try:
            return json.loads(output)
        except (ValueError, RecursionError):
            start = output[:60].decode(errors="replace")
            raise NodeFailed(
                f"{self.shown('get', *words)} printed invalid JSON: {start!r}"
            ) from None

    def next_step(self, said: str) -> str:
        match reason_of(said):
            case "Unauthorized":
                login = (
                    "oc login" if self.name == "oc" else "renew the credentials in your kubeconfig"
                )
                return f"{login}; then try: {self.shown('get', 'pods')}"
            case "Forbidden":
                return missing_permission(said, self.shown)
        return f"try it without rankdbg: {self.shown('get', 'pods')}"

    @property
    def readiness_hint(self) -> str:
        words = [self.name, *self._context, "get", "--raw", "/readyz"]
        return f"is the API server reachable? {shlex.join(words)}"

    def _check_configuration(self) -> None:
        """Without a cluster or a context kubectl tries localhost:8080: its error is confusing."""
        status, output, _ = self._run(["config", "view", "-o", "json"])
        try:
            view = json.loads(output) if status == 0 else None
        except ValueError:
            view = None
        # In a pod kubectl uses the cluster and the service account of the pod.
        if not isinstance(view, dict) or _in_a_pod():
            return
        named = os.environ.get("KUBECONFIG")
        where = f"KUBECONFIG={named}" if named else "~/.kube/config"
        if not view.get("clusters"):
            what = f"{self.name} has no cluster configured: {where} has none or does not exist"
            hint = "export KUBECONFIG=FILE, or log in to your cluster"
            raise NodeFailed(what, hint=f"oc login, or {hint}" if self.name == "oc" else hint)
        if not (self._context or view.get("current-context")):
            what = f"{self.name} has no current context: {where} does not name one"
            hint = f"add --context NAME; {self.name} config get-contexts lists them"
            raise NodeFailed(what, hint=hint)

    def _run(self, words: list[str]) -> tuple[int, bytes, bytes]:
        try:
            process = subprocess.Popen(
                self.command(*words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise NodeFailed(f"cannot start {self._program[0]}: {error.strerror}") from None
        try:
            output, complaint = process.communicate(timeout=self._get_seconds)
        except subprocess.TimeoutExpired:
            what = f"{self.shown(*words)} got no response within {self._get_seconds:g} s"
            raise NodeFailed(what, hint=self.readiness_hint) from None
        finally:
            if process.returncode is None:
                # With its login helpers, which hold its pipes open.
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        return process.returncode, output, complaint


def shell_words(line: str) -> list[str]:
    return ["sh", "-c", line]


def _find_program(named: str) -> list[str]:
    """--kubectl may be several words: `microk8s kubectl`."""
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise BadInput(f"invalid --kubectl {named!r}: {error}") from None
    if words:
        if shutil.which(words[0]) is None:
            raise BadInput(f"invalid --kubectl {named!r}: no such command")
        return words
    for name in ("kubectl", "oc"):
        if shutil.which(name):
            return [name]
    raise BadInput(
        "k8s: targets need kubectl or oc, and neither is installed",
        hint="install one, or give its path: --kubectl /path/to/kubectl",
    )


def _in_a_pod() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ


def last_line(complaint: bytes) -> str:
    """The last line of kubectl's stderr, which says why it failed; log lines of its libraries
    are skipped. If the program in the pod failed, kubectl adds a line with its exit status."""
    text = without_queries(complaint.decode(errors="replace"))
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line]
    plain = [line for line in said if not _LOGGED.match(line)]
    if len(plain) > 1 and plain[-1].startswith("command terminated"):
        return f"{plain[-2]} ({plain[-1]})"
    return (plain or said or [""])[-1]
