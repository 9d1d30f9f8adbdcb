"""The nodes of a Ray cluster, reached through an actor on each.

ray:auto           the cluster that this machine is part of
ray:HOST:PORT      the one with this address

Ray is used where the cluster has it: its driver is a process of its own, on a Python that has
Ray (clusters/ray_driver.py). That process carries all conversations, and takes its actors with
it when it ends.
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
from pathlib import Path
from typing import Any

from rankdbg import wire
from rankdbg.clusters import NO_OPTIONS, Options, carrier
from rankdbg.clusters.channel import Conversation, Waiting, last_words
from rankdbg.clusters.launched import Launched
from rankdbg.clusters.sending import PACKAGE, REMOTE, landing_opening, shell_line
from rankdbg.errors import BadInput, NodeFailed, RankdbgError
from rankdbg.ray import OTHERS_SETTINGS

# To import Ray and to connect takes longer than a shell, and so does the start of a worker. A
# node that is dead does not keep us waiting for so long: Ray notices.
CONNECT_SECONDS = 60.0


class Ray:
    origin = ""

    def __init__(self, rest: str, options: Options = NO_OPTIONS) -> None:
        self._address = _checked(rest)
        self.target = f"ray:{self._address}"
        self._python = options.python
        self._driver: Driver | None = None

    def nodes(self) -> list[str]:
        return list(self._connected().nodes)

    def open(self, node: str) -> RayChannel:
        return self._connected().open(node)

    def _connected(self) -> Driver:
        if self._driver is None or self._driver.failure is not None:
            self._driver = Driver(self._python or _find_python(), self._address)
        return self._driver


def _checked(rest: str) -> str:
    if not rest:
        hint = "rankdbg ps -t ray:auto   (or -t ray:HOST:PORT)"
        raise BadInput("which Ray cluster?", hint=hint)
    if "://" in rest:
        raise BadInput(
            f"rankdbg does not speak through Ray Client ({rest})",
            hint="run it on a node of the cluster: -t ray:auto   (or reach pods with -t k8s:…)",
        )
    host, _, port = rest.rpartition(":")
    if rest != "auto" and not (host and port.isdigit()):
        raise BadInput(f"{rest!r} is not an address of Ray", hint="ray:auto, or ray:HOST:PORT")
    return rest


def _find_python() -> str:
    """One that has Ray: rankdbg's own, or the one that the command `ray` runs on."""
    if importlib.util.find_spec("ray") is not None:
        return sys.executable
    command = shutil.which("ray")
    if command is not None:
        with open(command, "rb") as file:
            words = file.readline(4096).removeprefix(b"#!").decode(errors="replace").split()
        if words and Path(words[0]).name.startswith("python"):
            return words[0]
    raise NodeFailed(
        "no Ray here: rankdbg's Python has none, and there is no command `ray` on PATH",
        hint="name the Python that has it: --python PATH",
    )


class Driver:
    """The process that has the actors, and what it says about the cluster."""

    def __init__(self, python: str, address: str) -> None:
        self.failure: RankdbgError | None = None
        self._address = address
        self._noise = b""
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._channels: dict[str, RayChannel] = {}
        self._lock = threading.Lock()
        text = (PACKAGE / "clusters/ray_driver.py").read_text()
        environment = {**os.environ, "RANKDBG": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        environment = {n: environment[n] for n in {*environment} - {*OTHERS_SETTINGS}}
        # In /: Ray hands the driver's directory to its workers.
        self._process = Launched([python, "-c", text], environment, folder="/")
        self._lines = wire.Lines()
        self._process.listen(self._hear, self._hear_complaint)
        self.nodes = self._connect()

    def _connect(self) -> dict[str, dict[str, str]]:
        start = {"address": self._address, "start": shell_line()}
        self._process.send(json.dumps(start).encode() + b"\n")
        try:
            said = self._said.get(timeout=CONNECT_SECONDS)
        except queue.Empty:
            self._process.wait_or_kill(time.monotonic())
            said = {"error": f"no answer within {CONNECT_SECONDS:g} s"}
        if "nodes" not in said:
            why = said.get("error") or "; ".join(last_words(self._noise))
            self.failure = NodeFailed(f"the Ray cluster {self._address} cannot be reached: {why}")
            raise self.failure
        nodes = said["nodes"]
        hosts = [node["host"] for node in nodes]
        return {
            node["host"] if hosts.count(node["host"]) == 1 else node["address"]: node
            for node in nodes
        }

    def open(self, name: str) -> RayChannel:
        node = self.nodes[name]
        if node["died"]:
            raise NodeFailed(f"{name} has left the Ray cluster: {node['died']}")
        with self._lock:  # what it says is heard in another thread
            self.send(node["id"], b"open")
            channel = RayChannel(name, node["id"], self)
            self._channels[node["id"]] = channel
        return channel

    def send(self, ident: str, line: bytes) -> None:
        self._process.send(b"%s %s\n" % (ident.encode(), line.rstrip(b"\n")))

    def leave(self, ident: str, channel: RayChannel) -> None:
        """One channel less, if it was not replaced; the process ends with the last."""
        if self._channels.get(ident) is channel:
            self.send(ident, b"close")
            del self._channels[ident]
        if not self._channels:
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
            self._process.mourn(0.5, self._has_ended)

    def _hear_line(self, line: bytes) -> None:
        if not line.startswith(b"{"):
            ident, _, rest = line.partition(b" ")
            channel = self._channel(ident.decode(errors="replace"))
            if channel is not None:
                channel.conversation.feed(rest)
            return
        message = wire.decode(line)
        channel = self._channel(str(message.get("id")))
        if "ended" not in message:
            self._said.put(message)
        elif channel is not None:
            what = f"{channel.conversation.node}: {message['ended']}"
            channel.conversation.fail(NodeFailed(what))

    def _channel(self, ident: str) -> RayChannel | None:
        with self._lock:
            return self._channels.get(ident)

    def _hear_complaint(self, data: bytes) -> None:
        self._noise = (self._noise + data)[-8192:]

    def _has_ended(self, status: int | None) -> None:
        self._said.put({})
        self._fail(NodeFailed("rankdbg's Ray driver ended", *last_words(self._noise)))

    def _fail(self, failure: RankdbgError) -> None:
        self.failure = self.failure or failure
        for channel in list(self._channels.values()):
            channel.conversation.fail(failure)


class RayChannel:
    """The conversation with one node; its driver carries it."""

    def __init__(self, name: str, ident: str, driver: Driver) -> None:
        self._driver = driver
        self._ident = ident
        send: Callable[[wire.Message], None] = self._send
        opening = landing_opening(name, REMOTE)
        self.conversation = Conversation(name, send, opening, CONNECT_SECONDS)
        carrier.shared().on_rounds(self.conversation.keep_alive)

    @property
    def usable(self) -> bool:
        return self.conversation.usable

    def begin(self, message: wire.Message) -> Waiting:
        return self.conversation.begin(message)

    def hang_up(self) -> None:
        self._driver.leave(self._ident, self)

    def close(self, deadline: float) -> None:
        self.hang_up()
        self._driver.wait(deadline)

    def _send(self, message: wire.Message) -> None:
        self._driver.send(self._ident, wire.encode(message))
