"""A real Ray cluster of two nodes on this machine, in namespaces of its own.

One network namespace with two addresses on its loopback device, one PID namespace: when its
first process ends, with the tests at the latest, everything in it ends. `python` is an
interpreter that runs inside.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rankdbg.clusters import Options
from rankdbg.session import Session
from waiting import ANSWER_SECONDS, PATIENCE, wait_for

HEAD, OTHER = "10.77.0.1", "10.77.0.2"
PORT = 6399
RAY = Path(sys.executable).with_name("ray")


# Said outright: else Ray asks for a token as soon as a `ray.init()` of anybody's on this machine
# has made one. This cluster is in a network of its own, and ends with the tests.
AUTHENTICATION = "RAY_AUTH_MODE=disabled"

# How long Ray waits for its own processes when it starts.
_SECONDS = ("RAY_gcs_server_port_wait_time_s", "RAY_gcs_server_request_timeout_seconds")

_ADDRESSES = (
    f"ip link set lo up && ip addr add {HEAD}/32 dev lo && ip addr add {OTHER}/32 dev lo && "
)
_UNTIL_THE_TESTS_END = "echo ready && cat >/dev/null"


def missing() -> str:
    """What this machine lacks for it, or ``."""
    for command in ("unshare", "nsenter", "ip"):
        if shutil.which(command) is None:
            return f"needs the command {command}"
    if not RAY.exists():
        return "needs Ray"
    possible = subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], check=False)
    return "" if possible.returncode == 0 else "needs the right to make namespaces"


class RayCluster:
    address = f"{HEAD}:{PORT}"
    target = f"ray:{address}"

    def __init__(
        self,
        apart: bool = False,
        head: Mapping[str, str] = MappingProxyType({}),
        other: Mapping[str, str] | None = MappingProxyType({}),
        resources: str = "",
        other_resources: str = "",
    ) -> None:
        """With `apart`, what is on the head does not see the other node's processes. `head`,
        `other`: what Ray has in its environment on that node; without `other` there is no other
        node. `resources`: more of the head's, as JSON; `other_resources`: of the other node's."""
        on_head = [f"--resources={resources}"] if resources else []
        on_other = [f"--resources={other_resources}"] if other_resources else []
        for attempt in ("first", "last"):
            self._spaces: list[subprocess.Popen[bytes]] = []
            # Short: Ray has sockets in there, whose paths must not be long.
            self.scratch = Path(tempfile.mkdtemp(prefix="rd", dir="/tmp"))
            try:
                self._make_spaces(apart)
                self._start_nodes(on_head, head, on_other, other)
                return
            except BaseException as error:
                self.end()
                # Ray gives up where it gets no processor for a while. It is not what is tested.
                late = isinstance(error, (AssertionError, subprocess.TimeoutExpired))
                if attempt == "last" or not late:
                    raise

    def _make_spaces(self, apart: bool) -> None:
        script = _ADDRESSES + _UNTIL_THE_TESTS_END
        self._spaces.append(_make_space("unshare", "--net", script=script))
        self._inside = self._head = _deepest(self._spaces[0].pid)
        if apart:
            self._spaces.append(_make_space(*self.enter(), "unshare", script=_UNTIL_THE_TESTS_END))
            self._head = _deepest(self._spaces[1].pid)
        self.python = self.scratch / "python"
        self.python.write_text(f'#!/bin/sh\nexec {" ".join(self.enter())} {sys.executable} "$@"\n')
        self.python.chmod(0o700)

    def _start_nodes(
        self,
        on_head: list[str],
        head: Mapping[str, str],
        on_other: list[str],
        other: Mapping[str, str] | None,
    ) -> None:
        options = ["--head", f"--port={PORT}", "--include-dashboard=false", *on_head]
        with ThreadPoolExecutor(1) as meanwhile:
            starting = meanwhile.submit(self._start, *options, address=HEAD, settings=head)
            # The other need not wait for all of the first.
            wait_for(lambda: self._listens() or starting.done(), "Ray's head listens")
            if other is not None and self._listens():
                words = [f"--address={self.address}", *on_other]
                self._start(*words, address=OTHER, settings=other)
            starting.result()

    def _listens(self) -> bool:
        sockets = Path(f"/proc/{self._inside}/net/tcp").read_text().splitlines()[1:]
        sockets += Path(f"/proc/{self._inside}/net/tcp6").read_text().splitlines()[1:]
        return any(
            f":{PORT:04X}" in each.split()[1] and each.split()[3] == "0A" for each in sockets
        )

    def enter(self, address: str = HEAD) -> list[str]:
        """What to put before a command to run it in there."""
        first = self._head if address == HEAD else self._inside
        words = ["nsenter", "-t", str(first), "--net", "--pid", "--mount"]
        return [*words, "env", AUTHENTICATION]

    def run(
        self, *command: object, address: str = HEAD, **settings: Any
    ) -> subprocess.CompletedProcess[str]:
        words = [*self.enter(address), *map(str, command)]
        settings = {"timeout": PATIENCE, "check": False, **settings}
        return subprocess.run(words, capture_output=True, text=True, **settings)

    def _start(
        self, *words: str, address: str, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        patient = dict.fromkeys(_SECONDS, f"{PATIENCE:.0f}")
        own = {"RAY_TMPDIR": str(self.scratch), "RANKDBG": "0"}
        environment = {**os.environ, **patient, **own, **settings}
        result = self.run(
            *(RAY, "start", *words, f"--node-ip-address={address}", "--num-cpus=4"),
            "--object-store-memory=80000000",
            *("--disable-usage-stats", f"--temp-dir={self.scratch / address}"),
            f"--dashboard-agent-listen-port={52365 if address == HEAD else 52366}",
            address=address,
            env=environment,
            cwd=self.scratch,
        )
        assert result.returncode == 0, result.stdout + result.stderr

    def kill_node(self, address: str) -> None:
        """As a machine that loses its power: nobody is told."""
        doomed = self.pids(lambda command: str(self.scratch / address) in command)
        for pid in doomed:  # grows: workers and their children have other command lines
            doomed += [child for child in _children(pid) if child not in doomed]
        for pid in doomed:
            with suppress(ProcessLookupError):  # it was about to end
                os.kill(pid, signal.SIGKILL)

    def pids(self, wanted: Callable[[str], bool]) -> list[int]:
        """Processes in there, as they are numbered out here."""
        found = []
        for pid in _below(self._inside):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if wanted(command):
                found.append(pid)
        return found

    @contextmanager
    def session(self) -> Iterator[Session]:
        """One that several tests share."""
        options = Options(python=str(self.python))
        with Session(self.target, timeout=ANSWER_SECONDS, options=options) as session:
            session.reopens = True
            yield session

    def __enter__(self) -> RayCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        for first in reversed(self._spaces):
            assert first.stdin is not None
            first.stdin.close()
            try:
                first.wait(ANSWER_SECONDS)
            except subprocess.TimeoutExpired:
                first.kill()
        shutil.rmtree(self.scratch, ignore_errors=True)


def _make_space(*before: str, script: str) -> subprocess.Popen[bytes]:
    words = [*before, "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]
    first = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert first.stdout is not None
    assert first.stdout.readline() == b"ready\n"
    return first


def _deepest(pid: int) -> int:
    """The shell below those that have made its namespaces for it, without what it runs itself."""
    while Path(f"/proc/{pid}/comm").read_text() != "sh\n":
        (pid,) = _children(pid)
    return pid


def _children(pid: int) -> list[int]:
    """None of one that has ended meanwhile."""
    found: list[int] = []
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, file.read_text().split())
    return found


def _below(first: int) -> list[int]:
    """All processes in the PID namespace of this one."""
    space = os.readlink(f"/proc/{first}/ns/pid")
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "ns/pid") == space:
                found.append(int(entry.name))
        except OSError:
            continue
    return found
