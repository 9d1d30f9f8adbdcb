"""A Ray driver that carries the lines of all node conversations: a program of its own.

It runs on the Python that has Ray, which need not be rankdbg's; its text is sent on a command
line. On every node that is opened it has an actor, pinned and without resources, with the node
process as its child. Actors end with their driver, however that ends.

    -> {"address": "10.0.0.1:6379", "start": "<for sh -c>"}
    <- {"nodes": [{"id": "9a3b", "address": "10.0.0.1", "host": "gpu-1", "died": ""}, ...]}
    -> 9a3b open
    -> 9a3b {"ask": "roster", ...}     a line for that node
    <- 9a3b {"answer": ...}            a line of that node
    <- {"id": "9a3b", "ended": "why"}
    -> 9a3b close

A question for a roster is told on its way whom Ray knows on that node.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from typing import Any

_PORTION = 1 << 20
_LONGEST_LINE = 1 << 27
_KEPT_COMPLAINTS = 8192
_WANTED_DEATHS = (1, 3, 4)  # NodeDeathInfo.Reason: expected, or drained by the autoscaler
_FRESH_SECONDS = 0.5  # for so long what Ray's tables say is news
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

    def last_words(self) -> str:
        """Why it has ended, after its output has."""
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
    def __init__(self, ray: Any, start: str) -> None:
        self._ray = ray
        self._start = start
        self._actors: dict[str, Any] = {}
        self._sending: dict[str, asyncio.Queue[bytes]] = {}
        self._known: dict[str, dict[int, dict[str, Any]]] | None = {}
        self._known_at = float("-inf")
        self._tasks: set[asyncio.Task[None]] = set()

    def hear(self, line: bytes) -> None:
        node, _, rest = line.partition(b" ")
        ident = node.decode()
        if rest == b"open":
            self._end(ident)  # what was there before has broken
            queue: asyncio.Queue[bytes] = asyncio.Queue()
            self._sending[ident] = queue
            task = asyncio.create_task(self._converse(ident, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif rest == b"close":
            self._end(ident)
        elif ident in self._sending:
            self._sending[ident].put_nowait(self._with_known(ident, rest) + b"\n")

    async def _converse(self, ident: str, queue: asyncio.Queue[bytes]) -> None:
        why = ""
        sending = None
        try:
            actor = self._actors[ident] = self._make_actor(ident)
            await actor.open.remote(self._start)
            sending = asyncio.create_task(_send_all(actor, queue))
            rest = b""
            while data := await actor.receive.remote():
                *lines, rest = (rest + data).split(b"\n")
                tell(b"".join(b"%s %s\n" % (ident.encode(), line) for line in lines))
            why = await actor.last_words.remote()
        except Exception as error:
            why = await self._why_it_ended(ident, error)
        finally:
            if sending is not None:
                sending.cancel()
        if self._sending.get(ident) is queue:  # and not the one of a new conversation
            self._end(ident)
            tell_message({"id": ident, "ended": why})

    def _end(self, ident: str) -> None:
        self._sending.pop(ident, None)
        actor = self._actors.pop(ident, None)
        if actor is not None:
            self._ray.kill(actor)

    async def _why_it_ended(self, ident: str, error: Exception) -> str:
        """Ray notices that a connection is broken first, and a little later that a node is."""
        deadline = time.monotonic() + _FRESH_SECONDS
        while time.monotonic() < deadline:
            for node in find_nodes(self._ray):
                if node["id"] == ident and node["died"]:
                    return f"it has left the Ray cluster: {node['died']}"
            await asyncio.sleep(0.05)
        broken = re.search("RPC error: (.+?)(?: rpc_code|$)", first_line(error))
        if broken:
            return f"the connection to rankdbg's actor there is broken: {broken[1]}"
        return f"rankdbg's actor there has ended: {first_line(error)}"

    def _make_actor(self, ident: str) -> Any:
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        pinned = strategies.NodeAffinitySchedulingStrategy(ident, soft=False)
        make = self._ray.remote(RankdbgNode).options(
            num_cpus=0, max_concurrency=3, scheduling_strategy=pinned
        )
        return make.remote()

    def _with_known(self, ident: str, line: bytes) -> bytes:
        if b'"roster"' not in line[:200]:
            return line
        message = json.loads(line)
        if message.get("ask") != "roster":
            return line
        if time.monotonic() - self._known_at > _FRESH_SECONDS:
            try:
                self._known = find_known(self._ray)
            except Exception:  # these are no stable interfaces: then nodes find out by themselves
                self._known = None
            self._known_at = time.monotonic()
        if self._known is not None:
            message["known"] = self._known.get(ident, {})
        return json.dumps(message).encode()


async def _send_all(actor: Any, queue: asyncio.Queue[bytes]) -> None:
    """In order: calls of an actor with several threads may overtake each other."""
    while True:
        data = await queue.get()
        while not queue.empty():
            data += queue.get_nowait()
        for begin in range(0, len(data), _PORTION):
            await actor.send.remote(data[begin : begin + _PORTION])


# --- whom Ray knows -----------------------------------------------------------------------


def find_nodes(ray: Any) -> list[dict[str, str]]:
    """The living, and those that have died, unless that was wanted or others took the place."""
    dead: dict[str, dict[str, str]] = {}  # by address: one may have died many times
    alive: list[dict[str, str]] = []
    for entry in ray.nodes():
        node = {"id": entry["NodeID"], "address": entry["NodeManagerAddress"]}
        node.update(host=entry["NodeManagerHostname"], died="")
        if entry["Alive"]:
            alive.append(node)
        elif entry.get("DeathReason") not in _WANTED_DEATHS:
            node["died"] = entry.get("DeathReasonMessage") or "Ray calls it dead"
            dead[node["address"]] = node
    for node in alive:
        dead.pop(node["address"], None)
    return sorted([*alive, *dead.values()], key=lambda node: natural(node["address"]))


def find_known(ray: Any) -> dict[str, dict[int, dict[str, Any]]]:
    """node -> process -> its labels: workers and drivers, but for our own."""
    state = importlib.import_module("ray._private.state")
    ours = ray.get_runtime_context().get_job_id()
    drivers = {
        (job["DriverIPAddress"], job["DriverPid"]): job["JobID"]
        for job in state.jobs()
        if not job["IsDead"]
    }
    actors = {
        (actor["Address"]["NodeID"], actor["Pid"]): actor
        for actor in state.actors().values()
        if actor["State"] == "ALIVE"
    }
    places: dict[tuple[str, str], int] = {}
    known: dict[str, dict[int, dict[str, Any]]] = {}
    in_legacy_debugger = find_in_legacy_debugger(ray)

    def in_order(worker: Any) -> tuple[Any, ...]:
        actor = actors.get((worker.worker_address.node_id.hex(), worker.pid), {})
        return natural(actor.get("Name", "")), worker.start_time_ms, worker.pid

    for worker in sorted(find_workers(state), key=in_order):
        node, pid = worker.worker_address.node_id.hex(), worker.pid
        names = {"worker": worker.worker_address.worker_id.hex()}
        labels: dict[str, Any] = {"engine": "ray", "names": names}
        actor = actors.get((node, pid))
        job = actor["JobID"] if actor is not None else ""
        if worker.worker_type == 1:
            job = drivers.get((worker.worker_address.ip_address, pid), "")
            labels.update(part="driver", role="driver")
        elif actor is not None:
            name = actor["ActorClassName"].rpartition(".")[2]
            labels.update(part=name, role=name)
            names.update(actor=actor["Name"], actor_id=actor["ActorID"])
        if job == ours:
            continue
        if job:
            labels["job"] = f"ray-{job}"
        if worker.num_paused_threads > 0 or names["worker"] in in_legacy_debugger:
            labels["paused"] = in_legacy_debugger.get(names["worker"]) or (
                "in Ray's own debugger: VS Code's Ray extension, or any client of debugpy at "
                f"{worker.worker_address.ip_address}:{worker.debugger_port}"
            )
        kind = job, str(labels.get("role", ""))
        labels["place"] = places[kind] = places.get(kind, -1) + 1
        known.setdefault(node, {})[pid] = labels
    return known


def natural(name: str) -> list[tuple[str, int]]:
    """trainer-2 comes before trainer-10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def find_workers(state: Any) -> list[Any]:
    """The living: workers (0) and drivers (1), not those that spill objects."""
    messages = importlib.import_module("ray.core.generated.gcs_pb2")
    table = state.state._connect_and_get_accessor().get_worker_table()
    workers = [messages.WorkerTableData.FromString(entry) for entry in table]
    return [each for each in workers if each.is_alive and each.worker_type in (0, 1) and each.pid]


def find_in_legacy_debugger(ray: Any) -> dict[str, str]:
    """worker -> how to reach it, where RAY_DEBUG=legacy is set."""
    kept = importlib.import_module("ray.experimental.internal_kv")
    constants = importlib.import_module("ray._private.ray_constants")
    space = {"namespace": constants.KV_NAMESPACE_PDB}
    found = {}
    for key in kept._internal_kv_list(b"RAY_PDB_", **space):
        stop = json.loads(kept._internal_kv_get(key, **space) or "{}")
        if "worker_id" in stop:
            found[stop["worker_id"]] = (
                f"in Ray's own debugger at {stop.get('pdb_address')}: ray debug"
            )
    return found


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


def connect(address: str) -> Any:
    ray: Any = importlib.import_module("ray")
    host, _, port = address.rpartition(":")
    if host:  # Ray itself would try for a long time
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
        except OSError as error:
            raise OSError(f"nothing answers there ({error.strerror or error})") from None
    ray.init(
        address=address,
        namespace="rankdbg",
        log_to_driver=False,
        logging_level="ERROR",
    )
    return ray


def main() -> None:
    wanted = json.loads(sys.stdin.buffer.readline() or b"{}")
    try:
        ray = connect(wanted["address"])
        tell_message({"nodes": find_nodes(ray), "version": ray.__version__})
    except BaseException as error:
        tell_message({"error": first_line(error)})
        return
    asyncio.run(carry(Driver(ray, wanted["start"])))
    threading.Timer(2.0, os._exit, (0,)).start()  # that Ray can be reached is not certain
    ray.shutdown()


async def carry(driver: Driver) -> None:
    """Until the client has gone."""
    lines = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        driver.hear(line.rstrip(b"\n"))


try:
    main()
finally:
    os._exit(0)
