"""The nodes of a Ray cluster, reached through an actor on each.

ray:auto           the cluster that this machine is part of
ray:HOST:PORT      the one with this address

The Ray driver is a separate process, on a Python that has Ray (clusters/ray/ray_driver.py). It
transfers the messages of the other nodes; its actors end with it. The node of the driver is
inspected by a process without Ray: it responds even if Ray kills actors or Ray itself is gone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankdbg import wire
from rankdbg.clusters import NO_OPTIONS, Cluster, Options
from rankdbg.clusters.transport import carrier
from rankdbg.clusters.transport.channel import CONNECT_SECONDS as NODE_SECONDS
from rankdbg.clusters.transport.channel import (
    AskedQuestion,
    Conversation,
    ProcessChannel,
    last_lines,
)
from rankdbg.clusters.transport.launched import Launched
from rankdbg.clusters.transport.sending import PACKAGE, REMOTE, landing_opening, shell_line
from rankdbg.errors import BadInput, NodeFailed, RankdbgError
from rankdbg.ray import OTHERS_SETTINGS

# Importing Ray, connecting and starting a worker take longer than a shell. A dead node does not
# use up this time: Ray notices it.
CONNECT_SECONDS = 60.0
KNOWN_SECONDS = 2.0
# Ray keeps up to 100,000 tasks, and reading all of them takes a second or two.
TABLES_SECONDS = 5.0
# How long a question waits for a new driver after the old one has ended.
AGAIN_SECONDS = 2.0

# Runs on the Python that has Ray, and becomes the node process: with the environment of the
# raylet, as workers have it, and with that Python first on PATH.
_BESIDE_THE_RAYLET = """\
import os, sys
raylet, start = sys.argv[1:]
environ = dict(os.environb)
try:
    with open("/proc/" + raylet + "/environ", "rb") as file:
        words = [word.partition(b"=") for word in file.read().split(b"\\0")]
    environ = {name: value for name, sign, value in words if name and sign}
except OSError:
    pass
environ[b"RANKDBG_RAYLET"] = raylet.encode()
folder = os.path.dirname(sys.executable).encode()
environ[b"PATH"] = folder + b":" + environ.get(b"PATH", b"")
os.chdir("/")
os.execvpe("sh", ["sh", "-c", start], environ)
"""


class Ray(Cluster):
    def __init__(self, rest: str, options: Options = NO_OPTIONS) -> None:
        self._address = _checked(rest)
        self.target = f"ray:{self._address}"
        self._python = options.python
        self._connect_seconds = options.tolerance(CONNECT_SECONDS)
        self._here_seconds = options.tolerance(NODE_SECONDS)
        self._driver: DriverProcess | None = None
        self._nodes: list[str] = []  # as the last driver knew them
        self._here = DriverNode()
        self._users: set[object] = set()  # channels that are open
        self._connecting: threading.Thread | None = None

    def nodes(self) -> list[str]:
        if self._driver is None:
            self._connect()
        return self._nodes

    def open(self, node: str) -> RayChannel | HereChannel:
        if self._driver is None:
            self._connect()
        channel: RayChannel | HereChannel
        if node == self._here.name:
            channel = HereChannel(self._here, self._find_python(), self, self._here_seconds)
        else:
            channel = self._usable_driver(node).open(node, self)
        self._users.add(channel)
        return channel

    def known_here(self) -> dict[str, Any] | None:
        """The workers that Ray lists on the node of the driver; None if unknown."""
        if self._driver is not None and self._driver.failure is None:
            known = self._driver.known(self._here.ident, KNOWN_SECONDS)
            self._here.known = self._here.known if known is None else known
        return self._here.known

    def ray_tables(self, job: str) -> dict[str, Any] | None:
        if self._driver is None or self._driver.failure is not None:
            return None
        return self._driver.tables(job, TABLES_SECONDS)

    def wait(self, deadline: float) -> None:
        """Wait for the end of the driver if no channel needs it any more."""
        if not self._users and self._driver is not None:
            self._driver.wait(deadline)

    def leave(self, channel: object) -> None:
        """Remove a channel; the driver ends with the last one."""
        self._users.discard(channel)
        if not self._users and self._driver is not None:
            self._driver.hang_up()

    def _connect(self) -> None:
        self._driver = driver = DriverProcess(
            self._find_python(), self._address, self._connect_seconds
        )
        self._nodes = list(driver.nodes)
        if not self._here.name:
            self._here = driver.here

    def _usable_driver(self, node: str) -> DriverProcess:
        """Replace a driver that has ended, without delaying the nodes that respond."""
        assert self._driver is not None
        connecting = self._connecting is not None and self._connecting.is_alive()
        if self._driver.failure is not None and not connecting:
            self._connecting = threading.Thread(target=self._connect_again, daemon=True)
            self._connecting.start()
            self._connecting.join(AGAIN_SECONDS)
        if self._driver.failure is not None:
            raise NodeFailed(
                f"{node}: {self._driver.failure.what}",
                hint=_without_ray(self._driver.address(node)),
            )
        return self._driver

    def _connect_again(self) -> None:
        try:
            self._connect()
        except RankdbgError:  # the next question reports it, and tries again
            pass

    def _find_python(self) -> str:
        return self._python or _find_python()


@dataclass
class DriverNode:
    """The node of the driver; the name is empty if it is unknown."""

    name: str = ""
    ident: str = ""
    raylet: int = 0
    known: dict[str, Any] | None = None


def _without_ray(address: str) -> str:
    where = f"-t ssh:{address}" if address else "-t ssh:HOST,HOST"
    return f"to look without Ray: rankdbg ps {where}   (or on the node: rankdbg ps -t local)"


def _checked(rest: str) -> str:
    if not rest:
        hint = "rankdbg ps -t ray:auto   (or -t ray:HOST:PORT)"
        raise BadInput("ray: names no cluster", hint=hint)
    if "://" in rest:
        raise BadInput(
            f"Ray Client addresses are not supported ({rest})",
            hint="run it on a node of the cluster: -t ray:auto   (or reach pods with -t k8s:…)",
        )
    host, _, port = rest.rpartition(":")
    if rest != "auto" and not (host and port.isdigit()):
        raise BadInput(f"invalid Ray address {rest!r}", hint="expected ray:auto or ray:HOST:PORT")
    return rest


def _find_python() -> str:
    """A Python with Ray: that of rankdbg, or that of the command `ray`."""
    if importlib.util.find_spec("ray") is not None:
        return sys.executable
    command = shutil.which("ray")
    if command is not None:
        with open(command, "rb") as file:
            words = file.readline(4096).removeprefix(b"#!").decode(errors="replace").split()
        if words and Path(words[0]).name.startswith("python"):
            return words[0]
    raise NodeFailed(
        "Ray is not installed: rankdbg's Python has no Ray, and `ray` is not on PATH",
        hint="give the Python that has Ray: --python PATH",
    )


class DriverProcess:
    """The process that owns the actors, and its information about the cluster."""

    def __init__(self, python: str, address: str, connect_seconds: float) -> None:
        self.failure: RankdbgError | None = None
        self._address = address
        self.connect_seconds = connect_seconds
        self._noise = b""
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._known: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._tables: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.here = DriverNode()
        self.nodes: dict[str, dict[str, str]] = {}
        self._channels: dict[str, RayChannel] = {}
        self._lock = threading.Lock()
        text = (PACKAGE / "clusters/ray/ray_driver.py").read_text()
        environment = {**os.environ, "RANKDBG": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        environment = {n: environment[n] for n in {*environment} - {*OTHERS_SETTINGS}}
        # In /: Ray passes the directory of the driver on to its workers.
        self._process = Launched([python, "-c", text], environment, folder="/")
        self._lines = wire.Lines()
        self._process.listen(self._hear, self._hear_complaint)
        self.nodes = self._connect()

    def _connect(self) -> dict[str, dict[str, str]]:
        start = {"address": self._address, "start": shell_line()}
        for part in ("workers", "tables"):
            start[part] = (PACKAGE / f"clusters/ray/ray_{part}.py").read_text()
        self._process.send(json.dumps(start).encode() + b"\n")
        try:
            said = self._said.get(timeout=self.connect_seconds)
        except queue.Empty:
            self._process.wait_or_kill(time.monotonic())
            said = {"error": f"no response within {self.connect_seconds:g} s"}
        if "nodes" not in said:
            why = said.get("error") or "; ".join(last_lines(self._noise))
            self.failure = NodeFailed(
                f"cannot reach the Ray cluster {self._address}: {why}",
                "without its head node (GCS) Ray cannot reach any node, but jobs may still be running",
                hint=_without_ray(""),
            )
            raise self.failure
        nodes = said["nodes"]
        hosts = [node["host"] for node in nodes]
        named = {
            node["host"] if hosts.count(node["host"]) == 1 else node["address"]: node
            for node in nodes
        }
        here = said.get("here") or {}
        for name, node in named.items():
            if node["id"] == here.get("id"):
                self.here = DriverNode(name, node["id"], int(here["raylet"]))
        return named

    def open(self, name: str, cluster: Ray) -> RayChannel:
        node = self.nodes.get(name)
        if node is None or node["died"]:
            why = node["died"] if node else "Ray no longer lists it"
            raise NodeFailed(f"{name} has left the Ray cluster: {why}")
        with self._lock:  # its messages are read in another thread
            self.send(node["id"], b"open")
            channel = RayChannel(name, node["id"], self, cluster)
            self._channels[node["id"]] = channel
        return channel

    def address(self, name: str) -> str:
        return self.nodes[name]["address"] if name in self.nodes else ""

    def known(self, ident: str, seconds: float) -> dict[str, Any] | None:
        """The workers that Ray lists on a node; None if it does not respond."""
        self.send(ident, b"known")
        try:
            known: dict[str, Any] | None = self._known.get(timeout=seconds).get("known")
        except queue.Empty:
            return None
        return known

    def tables(self, job: str, seconds: float) -> dict[str, Any] | None:
        """Ray's tables about a job; None if they cannot be read."""
        while not self._tables.empty():  # what came too late the last time
            self._tables.get()
        self.send(job, b"tables")
        try:
            tables: dict[str, Any] | None = self._tables.get(timeout=seconds).get("tables")
        except queue.Empty:
            return None
        if tables is not None:
            names = {node["id"]: name for name, node in self.nodes.items()}
            tables["nodes"] = [{**n, "name": names.get(n["id"], "")} for n in tables["nodes"]]
        return tables

    def send(self, ident: str, line: bytes) -> None:
        self._process.send(b"%s %s\n" % (ident.encode(), line.rstrip(b"\n")))

    def leave(self, ident: str, channel: RayChannel) -> None:
        """Remove a channel, unless it was replaced."""
        if self._channels.get(ident) is channel:
            self.send(ident, b"close")
            del self._channels[ident]

    def hang_up(self) -> None:
        self._process.hang_up()

    def wait(self, deadline: float) -> None:
        self._process.wait_or_kill(deadline)

    def _hear(self, data: bytes) -> None:
        try:
            for line in self._lines.feed(data):
                self._hear_line(line)
        except RankdbgError as error:
            self._fail(error)
        if not data:
            self._process.reap(0.5, self._has_ended)

    def _hear_line(self, line: bytes) -> None:
        if not line.startswith(b"{"):
            ident, _, rest = line.partition(b" ")
            channel = self._channel(ident.decode(errors="replace"))
            if channel is not None:
                channel.conversation.feed(rest)
            return
        message = wire.decode(line)
        channel = self._channel(str(message.get("id")))
        if "known" in message:
            self._known.put(message)
        elif "tables" in message:
            self._tables.put(message)
        elif "ended" not in message:
            self._said.put(message)
        elif channel is not None:
            node = channel.conversation.node
            hint = "" if message.get("left") else _without_ray(self.address(node))
            channel.conversation.fail(NodeFailed(f"{node}: {message['ended']}", hint=hint))

    def _channel(self, ident: str) -> RayChannel | None:
        with self._lock:
            return self._channels.get(ident)

    def _hear_complaint(self, data: bytes) -> None:
        self._noise = (self._noise + data)[-8192:]

    def _has_ended(self, status: int | None) -> None:
        self._said.put({})
        self._known.put({})
        self._tables.put({})
        self._fail(
            NodeFailed(
                "rankdbg's Ray driver ended; this happens when the raylet of its node or the head "
                "of the cluster (GCS) is gone",
                *last_lines(self._noise),
            )
        )

    def _fail(self, failure: RankdbgError) -> None:
        self.failure = self.failure or failure
        for channel in list(self._channels.values()):
            node = channel.conversation.node
            hint = _without_ray(self.address(node))
            channel.conversation.fail(NodeFailed(f"{node}: {failure.what}", hint=hint))


class RayChannel:
    """The connection to one node, through the driver."""

    def __init__(self, name: str, ident: str, driver: DriverProcess, cluster: Ray) -> None:
        self._driver = driver
        self._cluster = cluster
        self._ident = ident
        send: Callable[[wire.Message], None] = self._send
        opening = landing_opening(name, REMOTE)
        self.conversation = Conversation(name, send, opening, driver.connect_seconds)
        carrier.shared().on_rounds(self.conversation.keep_alive)

    @property
    def failure(self) -> RankdbgError | None:
        return self.conversation.failure

    @property
    def usable(self) -> bool:
        return self.conversation.usable

    def begin(self, message: wire.Message) -> AskedQuestion:
        return self.conversation.begin(message)

    def hang_up(self) -> None:
        self._driver.leave(self._ident, self)
        self._cluster.leave(self)

    def close(self, deadline: float) -> None:
        self.hang_up()
        self._cluster.wait(deadline)

    def _send(self, message: wire.Message) -> None:
        self._driver.send(self._ident, wire.encode(message))


class HereChannel(ProcessChannel):
    """The node of the driver, inspected by a separate process."""

    def __init__(self, here: DriverNode, python: str, cluster: Ray, connect_seconds: float) -> None:
        self._cluster = cluster
        command = [python, "-c", _BESIDE_THE_RAYLET, str(here.raylet), shell_line()]
        opening = landing_opening(here.name, REMOTE)
        super().__init__(here.name, command, opening, connect_seconds=connect_seconds)

    def begin(self, message: wire.Message) -> AskedQuestion:
        if message.get("ask") == "roster" and (known := self._cluster.known_here()) is not None:
            message = {**message, "known": known}
        return super().begin(message)

    def hang_up(self) -> None:
        super().hang_up()
        self._cluster.leave(self)

    def close(self, deadline: float) -> None:
        super().close(deadline)
        self._cluster.wait(deadline)
