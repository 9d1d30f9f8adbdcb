"""python serve_commands.py SOCKET: a process that has loaded rankdbg, and forks for each command
that warm_commands.py asks for. The fork has the environment, folder and files that it is told, and
is what `python -m rankdbg WORD...` would be; the node process of this machine is a fork, too. The
server ends with its own input.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

# What a command loads sooner or later. (The agent is for users' programs.)
PACKAGES = (
    "clusters", "dumps", "frontends", "grouping", "investigations", "logs", "node", "process",
    "roster", "selection", "session", "verdicts", "wire",
)  # fmt: skip
# Programs, and what needs a package of its own.
NOT_LOADED = ("landing", "folded_memory", "__main__", "monarch", "ray_driver", "textual")


def load() -> None:
    for name in PACKAGES:
        package = importlib.import_module(f"rankdbg.{name}")
        for module in pkgutil.walk_packages(getattr(package, "__path__", []), f"rankdbg.{name}."):
            if not any(part in NOT_LOADED for part in module.name.split(".")):
                with contextlib.suppress(ImportError):
                    importlib.import_module(module.name)


def serve(place: str) -> list[str]:
    """Returns the words of the command, in the fork of each client."""
    running: dict[int, tuple[int, socket.socket]] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(64)
        print("serves", flush=True)
        while True:
            ready, _, _ = select.select([listener, 0, *running], [], [])
            if 0 in ready:
                sys.exit()
            for ended in {*ready} & {*running}:
                _report(*running.pop(ended))
                os.close(ended)
            if listener in ready:
                client = listener.accept()[0]
                _, files, _, _ = socket.recv_fds(client, 1, 3)
                with client.makefile("rb") as stream:
                    asked = json.loads(stream.readline())
                pid = os.fork()
                if not pid:
                    client.close()
                    break
                for file in files:
                    os.close(file)
                client.sendall(b"%d\n" % pid)
                running[os.pidfd_open(pid)] = (pid, client)
    for handle, (_, other) in running.items():
        os.close(handle)
        other.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    if asked["memory"]:
        resource.setrlimit(resource.RLIMIT_AS, (asked["memory"], asked["memory"]))
    return asked["words"]  # type: ignore[no-any-return]


class ForkedNode:
    """As far as rankdbg uses subprocess.Popen for its node process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        (given, self.stdin), (self.stdout, said), (self.stderr, complained) = (
            _pipe(), _pipe(), _pipe(),
        )  # fmt: skip
        self.pid = os.fork()
        if not self.pid:
            self._be_the_node(environment, given.fileno(), said.fileno(), complained.fileno())
        self._handle = os.pidfd_open(self.pid)
        self._status: int | None = None
        self._waiting = threading.Lock()

    def _be_the_node(self, environment: Mapping[str, str], *files: int) -> None:
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(3, 4096)
        os.environ.clear()
        os.environ.update(environment)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        try:
            node.main()
        finally:
            os._exit(1)

    def wait(self, timeout: float | None = None) -> int:
        ended = select.poll()
        ended.register(self._handle, select.POLLIN)
        if not ended.poll(None if timeout is None else 1000 * timeout):
            raise subprocess.TimeoutExpired("node", timeout or 0.0)
        with self._waiting:
            if self._status is None:
                self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def kill(self) -> None:
        signal.pidfd_send_signal(self._handle, signal.SIGKILL)


def _pipe() -> tuple[Any, Any]:
    read, write = os.pipe()
    return open(read, "rb", buffering=0), open(write, "wb", buffering=0)


def _started(command: list[str], **settings: Any) -> Any:
    """What rankdbg starts: the node process of this machine by a fork, all else as it is."""
    if command[3:4] == [local._START] and threading.active_count() == 1:
        return ForkedNode(settings["env"])
    return subprocess.Popen(command, **settings)


def _report(pid: int, client: socket.socket) -> None:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with client, contextlib.suppress(OSError):  # who asked may have gone
        client.sendall(b"%d\n" % status)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a user who ends the tests
    load()
    gc.freeze()
    sys.argv = ["rankdbg", *serve(sys.argv[1])]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path[0] = ""  # as with -m
    from rankdbg.__main__ import main
    from rankdbg.clusters import local
    from rankdbg.clusters.transport import launched
    from rankdbg.node import __main__ as node

    # Only for what is launched: the module itself stays as it is.
    launched.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": _started})  # type: ignore[assignment]
    try:
        main()
    except SystemExit as ended:
        # As Python ends, but for freeing all modules one by one.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(int(ended.code or 0))
