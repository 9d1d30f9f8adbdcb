"""kubectl, or oc: its command lines, and what it says when it fails.

Authentication, proxies and the choice of a cluster are its own, with the user's own
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
from rankdbg.errors import BadInput, NodeFailed

# An API server that is frozen lets kubectl wait for a minute.
GET_SECONDS = 10.0

PERMISSIONS = "get and list on pods, create and get on pods/exec"
# Kubernetes' own word for a failure stands in brackets: `Error from server (NotFound): ...`.
_REASON = re.compile(r"\((NotFound|Forbidden|Unauthorized|BadRequest)\)")
# What kubectl's libraries log: `E0102 03:04:05.678901   42 websocket.go:296] Unknown stream`.
_LOGGED = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ ")


class KubectlFailed(NodeFailed):
    """kubectl said no. `reason` is Kubernetes' word for why, where there is one."""

    def __init__(self, what: str, words: str, hint: str) -> None:
        found = _REASON.search(words)
        self.reason = found[1] if found else ""
        super().__init__(f"{what}: {words}", hint=hint)


class Kubectl:
    def __init__(self, namespace: str, options: Options) -> None:
        self._program = _find_program(options.kubectl)
        self.name = os.path.basename(self._program[0])
        self._context = ["--context", options.context] if options.context else []
        self._where = [*self._context, "-n", namespace]

    def exec_command(self, pod: str, container: str, line: str) -> list[str]:
        """Never with a terminal (-t): that would change the bytes."""
        return [
            *(*self._program, *self._where, "exec", "-i", pod, "-c", container),
            *("--", "sh", "-c", line),
        ]

    def command(self, *words: str) -> list[str]:
        return [*self._program, *self._where, *words]

    def shown(self, *words: str) -> str:
        """As the user would type it."""
        return shlex.join([self.name, *self._where, *words])

    def namespaces_shown(self) -> str:
        """Where the user may look for the namespace. OpenShift shows users their projects."""
        kind = "projects" if self.name == "oc" else "namespaces"
        return shlex.join([self.name, *self._context, "get", kind])

    def get(self, *words: str) -> Any:
        """What the API server knows. With a server that is down, kubectl prints a list that
        is valid, and empty: its exit status comes first."""
        status, output, complaint = self._run(["get", *words, "-o", "json"])
        if status != 0:
            said = last_words(complaint) or f"exit status {status}"
            what = self.shown("get", *words)
            raise KubectlFailed(what, said, self._next_step(said))
        try:
            return json.loads(output)
        except (ValueError, RecursionError):
            start = output[:60].decode(errors="replace")
            raise NodeFailed(f"{self.shown('get', *words)} printed no JSON: {start!r}") from None

    def _next_step(self, said: str) -> str:
        found = _REASON.search(said)
        match found and found[1]:
            case "Unauthorized":
                login = "oc login" if self.name == "oc" else "renew the login of your kubeconfig"
                return f"{login}; then try: {self.shown('get', 'pods')}"
            case "Forbidden":
                return f"rankdbg needs {PERMISSIONS}: {self.shown('auth', 'can-i', '--list')}"
        return f"the same without rankdbg: {self.shown('get', 'pods')}"

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
            output, complaint = process.communicate(timeout=GET_SECONDS)
        except subprocess.TimeoutExpired:
            what = f"{self.shown(*words)} had no answer within {GET_SECONDS:g} s"
            hint = f"is the API server well? {self.shown('get', '--raw', '/readyz')}"
            raise NodeFailed(what, hint=hint) from None
        finally:
            if process.returncode is None:
                # With the programs that it has started to log in: they hold its pipes.
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        return process.returncode, output, complaint


def _find_program(named: str) -> list[str]:
    """--kubectl may be several words: `microk8s kubectl`."""
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise BadInput(f"--kubectl {named!r} is not a command: {error}") from None
    if words:
        if shutil.which(words[0]) is None:
            raise BadInput(f"--kubectl {named!r}: there is no such command")
        return words
    for name in ("kubectl", "oc"):
        if shutil.which(name):
            return [name]
    raise BadInput(
        "neither kubectl nor oc is here, and a k8s: target is reached through one of them",
        hint="install one, or name it: --kubectl /path/to/kubectl",
    )


def last_words(complaint: bytes) -> str:
    """Why it has failed is the last that it says; what its libraries log may come later. Of
    a program that has failed it adds the exit status to what that has said."""
    lines = [line.strip() for line in complaint.decode(errors="replace").splitlines()]
    said = [line for line in lines if line]
    plain = [line for line in said if not _LOGGED.match(line)]
    if len(plain) > 1 and plain[-1].startswith("command terminated"):
        return f"{plain[-2]} ({plain[-1]})"
    return (plain or said or [""])[-1]
