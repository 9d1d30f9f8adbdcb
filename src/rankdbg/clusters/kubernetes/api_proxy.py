"""One kubectl for all pods: `kubectl proxy` on a socket that only this user can reach.

A `kubectl exec` takes 0.1 s of local CPU time for each pod, and runs the login helper (aws,
gcloud) if there is one. The proxy logs in once and serves all pods.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from urllib.parse import quote, urlencode

# The proxy is usually ready within 0.1 s; after this time, pods are entered without it.
START_SECONDS = 5.0
# Ends the proxy and removes its directory when stdin is closed, also if rankdbg is killed.
_GUARD = '"$@" & p=$!; exec >&-; read x; kill $p 2>/dev/null; wait $p; rm -rf "$0"'
# By default it rejects exec, to protect a port that web pages could reach.
_OPTIONS = ("--reject-paths=^$", "--accept-hosts=.*")


class ApiProxy:
    def __init__(self, kubectl: Sequence[str]) -> None:
        """`kubectl`: the command, with the options that choose the cluster."""
        self._kubectl = kubectl
        self._folder = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = float("-inf")
        self._serves: bool | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Once, without waiting. If it cannot start, it is not used."""
        with self._lock:
            if self._process is not None or self._serves is not None:
                return
            try:
                self._folder = tempfile.mkdtemp(prefix="rankdbg-kubectl-")
                self._process = self._launch()
                self._begun = time.monotonic()
            except OSError:
                self._serves = False

    def _launch(self) -> subprocess.Popen[bytes]:
        words = [*self._kubectl, "proxy", f"--unix-socket={self._path}", *_OPTIONS]
        return subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, self._folder, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the user's command
        )

    @property
    def _path(self) -> str:
        return os.path.join(self._folder, "api")

    def exec_request(
        self, namespace: str, pod: str, container: str, command: Sequence[str]
    ) -> tuple[socket.socket, bytes] | None:
        """A connection, and the request that runs a command in a container; None if there is no
        proxy, or it has ended."""
        if not self._is_serving():
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            self._serves = False
            return None
        return connection, _request(namespace, pod, container, command)

    def _is_serving(self) -> bool:
        """The proxy prints a line once it listens."""
        with self._lock:
            if self._serves is None and self._process is not None and self._process.stdout:
                left = max(0.0, self._begun + START_SECONDS - time.monotonic())
                ready = select.select([self._process.stdout], [], [], left)[0]
                self._serves = bool(ready and os.read(self._process.stdout.fileno(), 1))
            return bool(self._serves)

    def close(self) -> None:
        with self._lock:
            self._serves = False
            process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            shutil.rmtree(self._folder, ignore_errors=True)


def _request(namespace: str, pod: str, container: str, command: Sequence[str]) -> bytes:
    words = [("container", container), *((stream, "true") for stream in _STREAMS)]
    words += [("command", word) for word in command]
    place = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/exec?{urlencode(words)}"
    lines = (
        f"GET {place} HTTP/1.1",
        "Host: localhost",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: cmFua2RiZyBhc2tzIHJhbg==",
        "Sec-WebSocket-Protocol: v4.channel.k8s.io",
    )
    return b"".join(line.encode() + b"\r\n" for line in [*lines, ""])


_STREAMS = ("stdin", "stdout", "stderr")
