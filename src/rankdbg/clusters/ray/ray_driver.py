"""A Ray driver that carries the lines of all node conversations: a program of its own.

It runs on the Python that has Ray, which need not be rankdbg's; its text is sent on a command
line. On every node that is opened it has an actor, pinned and without resources, with the node
process as its child. Actors end with their driver, however that ends.

    -> {"address": "10.0.0.1:6379", "start": "<for sh -c>", "workers": "<ray_workers.py>",
        "tables": "<ray_tables.py>"}
    <- {"nodes": [{"id": "9a3b", "address": "10.0.0.1", "host": "gpu-1", "died": ""}, ...],
        "here": {"id": "9a3b", "raylet": 4711}}
    -> 9a3b known
    <- {"id": "9a3b", "known": {"4712": {...}, ...}}
    -> 01000000 tables                 of this job
    <- {"tables": {"tasks": [...], "actors": [...], ...}}
    -> 7c21 open
    -> 7c21 {"ask": "roster", ...}     a line for that node
    <- 7c21 {"answer": ...}            a line of that node
    <- {"id": "7c21", "ended": "why", "left": false}   whether Ray has given the node up
    -> 7c21 close

A question for a roster gets, on its way, what Ray knows of that node. The node that this process
is on (`here`) needs no actor, and so nothing that Ray may kill: the client looks at it itself, and
only asks whom Ray knows there.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import types
from typing import Any

_PORTION = 1 << 20
_LONGEST_LINE = 1 << 27
_KEPT_COMPLAINTS = 8192
_FRESH_SECONDS = 0.5  # for so long what Ray's tables say is news
_TABLE_SECONDS = 1.0  # for an answer of Ray's tables
_REACH_SECONDS = 5.0


class RankdbgNode:
    """The actor: the node process beside it. Its methods run in threads of their own."""

    def open(self, start: str) -> None:
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
        self._process = subprocess.Popen(
            ["sh", "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PATH": path},  # the first Python is the one that Ray runs on
            bufsize=0,
        )
        self._complaints = b""
        threading.Thread(target=self._hear_complaints, daemon=True).start()

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._process.stdin.write(view) :]  # type: ignore[union-attr]

    def receive(self) -> bytes:
        return os.read(self._process.stdout.fileno(), _PORTION)  # type: ignore[union-attr]

    def last_line(self) -> str:
        """Why the process has ended; called after the end of its output."""
        try:
            self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            pass
        lines = [line for line in self._complaints.decode(errors="replace").splitlines() if line]
        return lines[-1].strip() if lines else "the node process ended"

    def _hear_complaints(self) -> None:
        while data := os.read(self._process.stderr.fileno(), _PORTION):  # type: ignore[union-attr]
            self._complaints = (self._complaints + data)[-_KEPT_COMPLAINTS:]


class Driver:
    def __init__(
        self, ray: Any, start: str, workers: types.ModuleType, tables: types.ModuleType
    ) -> None:
        self._ray = ray
        self._start = start
        self._workers = workers
        self._tables = tables
        self._actors: dict[str, Any] = {}
        self._sending: dict[str, asyncio.Queue[asyncio.Task[bytes]]] = {}
        self._known: dict[str, dict[int, dict[str, Any]]] | None = None
        self._alive: set[str] = set()
        self._known_at = float("-inf")
        self._finding: asyncio.Future[Any] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def hear(self, line: bytes) -> None:
        node, _, rest = line.partition(b" ")
        ident = node.decode()
        if rest == b"open":
            self._end(ident)  # what was there before has broken
            queue: asyncio.Queue[asyncio.Task[bytes]] = asyncio.Queue()
            self._sending[ident] = queue
            self._keep(asyncio.create_task(self._converse(ident, queue)))
        elif rest == b"close":
            self._end(ident)
        elif rest == b"known":
            self._keep(asyncio.create_task(self._tell_known(ident)))
        elif rest == b"tables":
            self._keep(asyncio.create_task(self._tell_tables(ident)))
        elif ident in self._sending:
            whole = asyncio.create_task(self._with_known(ident, rest + b"\n"))
            self._sending[ident].put_nowait(whole)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, ident: str, queue: asyncio.Queue[asyncio.Task[bytes]]) -> None:
        why, left = "", False
        sending = None
        try:
            actor = self._actors[ident] = self._make_actor(ident)
            await actor.open.remote(self._start)
            sending = asyncio.create_task(_send_all(actor, queue))
            rest = b""
            while data := await actor.receive.remote():
                *lines, rest = (rest + data).split(b"\n")
                tell(b"".join(b"%s %s\n" % (ident.encode(), line) for line in lines))
            why = await actor.last_line.remote()
        except Exception as error:
            why, left = await self._why_it_ended(ident, error)
        finally:
            if sending is not None:
                sending.cancel()
        if self._sending.get(ident) is queue:  # and not the one of a new conversation
            self._end(ident)
            tell_message({"id": ident, "ended": why, "left": left})

    def _end(self, ident: str) -> None:
        self._sending.pop(ident, None)
        actor = self._actors.pop(ident, None)
        if actor is not None:
            self._ray.kill(actor)

    async def _why_it_ended(self, ident: str, error: Exception) -> tuple[str, bool]:
        """Ray notices that a connection is broken first, and a little later that a node is."""
        deadline = time.monotonic() + _FRESH_SECONDS
        loop = asyncio.get_running_loop()
        while time.monotonic() < deadline:
            finding = loop.run_in_executor(None, self._workers.find_nodes, self._ray)
            await asyncio.wait([finding], timeout=_TABLE_SECONDS)
            told = finding.done() and finding.exception() is None
            for node in finding.result() if told else []:
                if node["id"] == ident and node["died"]:
                    return f"it has left the Ray cluster: {node['died']}", True
            await asyncio.sleep(0.05)
        if isinstance(error, self._ray.exceptions.OutOfMemoryError):
            return "Ray's memory monitor killed rankdbg's actor: the node is low on memory", False
        broken = re.search("RPC error: (.+?)(?: rpc_code|$)", first_line(error))
        if broken:
            return f"the connection to rankdbg's actor there is broken: {broken[1]}", False
        return f"rankdbg's actor there has ended: {first_line(error)}", False

    def _make_actor(self, ident: str) -> Any:
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        pinned = strategies.NodeAffinitySchedulingStrategy(ident, soft=False)
        make = self._ray.remote(RankdbgNode).options(
            num_cpus=0, max_concurrency=3, scheduling_strategy=pinned
        )
        return make.remote()

    async def _with_known(self, ident: str, line: bytes) -> bytes:
        if b'"roster"' not in line[:200]:
            return line
        message = json.loads(line)
        if message.get("ask") != "roster":
            return line
        known = await self._known_on(ident)
        if known is not None:
            message["known"] = known
        return json.dumps(message).encode() + b"\n"

    async def _tell_known(self, ident: str) -> None:
        tell_message({"id": ident, "known": await self._known_on(ident)})

    async def _tell_tables(self, job: str) -> None:
        find = functools.partial(self._tables.find_tables, self._ray, job)
        try:
            tables = await asyncio.get_running_loop().run_in_executor(None, find)
        except Exception as error:  # these are no stable interfaces
            tell_message({"tables": None, "why": first_line(error)})
        else:
            tell_message({"tables": tables})

    async def _known_on(self, ident: str) -> dict[int, dict[str, Any]] | None:
        """None: Ray does not say. It is asked in a thread, since without its head it does not
        answer for long; then what it said last is the best that there is."""
        if time.monotonic() - self._known_at > _FRESH_SECONDS:
            if self._finding is None or self._finding.done():
                self._finding = asyncio.get_running_loop().run_in_executor(None, self._find_known)
            await asyncio.wait([self._finding], timeout=_TABLE_SECONDS)
        known = self._known if ident in self._alive else None  # of a dead node Ray knows nothing
        return None if known is None else known.get(ident, {})

    def _find_known(self) -> None:
        try:
            alive = [node for node in self._workers.find_nodes(self._ray) if not node["died"]]
            self._alive = {node["id"] for node in alive}
            self._known = self._workers.find_known(self._ray, alive)
        except Exception:  # these are no stable interfaces: then nodes find out by themselves
            pass
        self._known_at = time.monotonic()


async def _send_all(actor: Any, queue: asyncio.Queue[asyncio.Task[bytes]]) -> None:
    """In order: calls of an actor with several threads may overtake each other."""
    while True:
        data = await (await queue.get())
        while not queue.empty():
            data += await queue.get_nowait()
        for begin in range(0, len(data), _PORTION):
            await actor.send.remote(data[begin : begin + _PORTION])


def find_here(ray: Any) -> dict[str, Any]:
    """The node that this process is on, and its raylet, if that can be seen from here."""
    try:
        socket_name = ray._private.worker.global_worker.node.raylet_socket_name
        wanted = f"--raylet_socket_name={socket_name}".encode()
        ident = ray.get_runtime_context().get_node_id()
    except Exception:  # these are no stable interfaces: an actor does as well
        return {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if wanted in words and os.path.basename(words[0]) == b"raylet":
            return {"id": ident, "raylet": int(pid)}
    return {}


# --- the conversation with the client -----------------------------------------------------

_output = os.dup(1)
os.dup2(2, 1)  # only messages may go to stdout: whatever else prints goes to stderr
_writing = threading.Lock()


def tell(data: bytes) -> None:
    with _writing:
        view = memoryview(data)
        while view:
            view = view[os.write(_output, view) :]


def tell_message(message: dict[str, Any]) -> None:
    tell(json.dumps(message).encode() + b"\n")


def first_line(error: BaseException) -> str:
    """Ray's errors have many, and the first that says something is the reason."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next(filter(None, lines), type(error).__name__)


def found(address: str) -> str:
    """Where `auto` is, as far as Ray has noted that."""
    if address != "auto":
        return address
    try:
        services = importlib.import_module("ray._private.services")
        return str(services.canonicalize_bootstrap_address(address) or "")
    except Exception:  # these are no stable interfaces: Ray will say it in its own words
        return ""


def connect(address: str) -> Any:
    ray: Any = importlib.import_module("ray")
    host, _, port = found(address).rpartition(":")
    if host:  # Ray itself would try for a long time
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
        except OSError as error:
            raise OSError(f"nothing answers there ({error.strerror or error})") from None
    utils = importlib.import_module("ray._private.utils")
    # What `ray list jobs` shows as the command of this driver.
    utils.get_entrypoint_name = lambda: "rankdbg"  # type: ignore[attr-defined]
    ray.init(
        address=address,
        namespace="rankdbg",
        log_to_driver=False,
        logging_level="ERROR",
    )
    return ray


def loaded(name: str, text: str) -> types.ModuleType:
    """A part of this program that came with the first message."""
    module = types.ModuleType(name)
    exec(text, vars(module))
    return module


def main() -> None:
    wanted = json.loads(sys.stdin.buffer.readline() or b"{}")
    try:
        ray = connect(wanted["address"])
        workers = loaded("ray_workers", wanted["workers"])
        tell_message({"nodes": workers.find_nodes(ray), "here": find_here(ray)})
    except BaseException as error:
        tell_message({"error": first_line(error)})
        return
    tables = loaded("ray_tables", wanted["tables"])
    asyncio.run(carry(Driver(ray, wanted["start"], workers, tables)))
    threading.Timer(2.0, os._exit, (0,)).start()  # that Ray can be reached is not certain
    ray.shutdown()


async def carry(driver: Driver) -> None:
    """Until the client ends."""
    lines = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        driver.hear(line.rstrip(b"\n"))


try:
    main()
finally:
    os._exit(0)
