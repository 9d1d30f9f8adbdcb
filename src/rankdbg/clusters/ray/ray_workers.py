"""Which processes Ray has on each node, by its own tables: workers, drivers, and actors that have died.

Part of the program that ray_driver.py is, on the Python that has Ray; its text is sent with the
start message.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_WANTED_DEATHS = (1, 3, 4)  # NodeDeathInfo.Reason: expected, or drained by the autoscaler
_LONGEST_NAME = 200
NOWHERE = 0  # no process has this id: under it are those of nodes that are gone
_MOVERS = {2: "SpillWorker", 3: "RestoreWorker"}  # WorkerType: they write and read objects
_WANTED_ENDS = (4, 5, 6)  # ActorDiedErrorContext.Reason: killed by the job, or not used any more
_DEATHS = {
    "creation_task_failure_context": "its constructor raised an exception",
    "runtime_env_failed_context": "its runtime environment could not be set up",
    "actor_unschedulable_context": "no node can run it",
    "oom_context": "Ray's memory monitor killed it: the node was low on memory",
}

Actor = dict[str, Any]  # as Ray's state API has it
Known = dict[str, dict[int, dict[str, Any]]]  # node -> process -> its labels


def find_nodes(ray: Any) -> list[dict[str, str]]:
    """Living nodes, and dead ones unless they were removed or replaced on purpose."""
    dead: dict[str, dict[str, str]] = {}  # by address: one may have died many times
    alive: list[dict[str, str]] = []
    for entry in ray.nodes():
        node = {"id": entry["NodeID"], "address": entry["NodeManagerAddress"]}
        node.update(host=entry["NodeManagerHostname"], died="")
        if entry["Alive"]:
            alive.append(node)
        elif entry.get("DeathReason") not in _WANTED_DEATHS:
            node["died"] = entry.get("DeathReasonMessage") or "Ray reports it as dead"
            dead[node["address"]] = node
    for node in alive:
        dead.pop(node["address"], None)
    return sorted([*alive, *dead.values()], key=lambda node: natural(node["address"]))


def find_known(ray: Any, nodes: Sequence[Mapping[str, str]]) -> Known:
    """What Ray knows of the processes on these nodes, but for our own."""
    state = importlib.import_module("ray._private.state")
    ours = ray.get_runtime_context().get_job_id()
    jobs = find_jobs(state)
    actors = [actor for actor in state.actors().values() if actor["JobID"] != ours]
    numbers = number_actors(actors)
    workers = find_workers(state)
    known = label_workers(workers, actors, numbers, jobs, find_in_legacy_debugger(ray), ours)
    dead = label_dead(actors, numbers, jobs, nodes)
    return join(known, dead)


def label_workers(
    workers: Iterable[Any],
    actors: Iterable[Actor],
    numbers: Mapping[str, int],
    jobs: Mapping[str, Any],
    paused: Mapping[str, str],
    ours: str,
) -> Known:
    living = {(a["Address"]["NodeID"], a["Pid"]): a for a in actors if a["State"] == "ALIVE"}
    drivers = {job["driver"]: ident for ident, job in jobs.items() if not job["dead"]}
    known: Known = {}
    others = 0  # workers that are no actors
    for worker in sorted(workers, key=lambda each: (each.start_time_ms, each.pid)):
        address = worker.worker_address
        found = living.get((address.node_id.hex(), worker.pid))
        job = found["JobID"] if found else drivers.get((address.ip_address, worker.pid), "")
        if job == ours:
            continue
        if found is not None:
            labels = labels_of_actor(found, numbers)
        elif worker.worker_type == 1:
            labels = {"engine": "ray", "part": "driver", "role": "driver", "place": 0, "names": {}}
        elif worker.worker_type in _MOVERS:
            name = _MOVERS[worker.worker_type]
            labels = {"engine": "ray", "part": name, "role": name, "names": {}}
        else:
            labels = {"engine": "ray", "place": others, "names": {}}
            others += 1
        labels["names"]["worker"] = address.worker_id.hex()
        labels["began"] = worker.start_time_ms
        if worker.num_paused_threads > 0 or address.worker_id.hex() in paused:
            labels["paused"] = paused.get(address.worker_id.hex()) or (
                "in Ray's own debugger: VS Code's Ray extension, or any client of debugpy at "
                f"{address.ip_address}:{worker.debugger_port}"
            )
        name_job(labels, job, jobs)
        known.setdefault(address.node_id.hex(), {})[worker.pid] = labels
    return known


def label_dead(
    actors: Sequence[Actor],
    numbers: Mapping[str, int],
    jobs: Mapping[str, Any],
    nodes: Sequence[Mapping[str, str]],
) -> list[tuple[str, int, dict[str, Any]]]:
    """Actors without a process, each with its node and pid, in the order of their ends. Those of a
    node that was started again are on the node that has its address now; those of a node that is
    gone are reported by the first of the others, with NOWHERE for a pid."""
    alive = {node["id"] for node in nodes}
    addresses = {node["address"]: node["id"] for node in nodes}
    over = jobs_that_are_over(actors, jobs)
    dead = []
    for actor in sorted(actors, key=lambda each: (each["EndTime"], each["ActorID"])):
        ended = actor["State"] in ("DEAD", "RESTARTING") and actor["Pid"]
        if ended and actor["JobID"] not in over and (why := why_dead(actor)):
            labels = {**labels_of_actor(actor, numbers), "dead": why, "ended": actor["EndTime"]}
            name_job(labels, actor["JobID"], jobs)
            node, pid = actor["Address"]["NodeID"], actor["Pid"]
            if node not in alive:
                address = actor["Address"]["IPAddress"]
                node = addresses.get(address, "")
                if not node and nodes:  # its pid may be another process's there
                    node, pid = nodes[0]["id"], NOWHERE
                    labels["pid"] = actor["Pid"]
                    labels["dead"] = f"{why} (its node {address} has left the Ray cluster)"
            dead.append((node, pid, labels))
    return dead


def jobs_that_are_over(actors: Iterable[Actor], jobs: Mapping[str, Any]) -> set[str]:
    """Their drivers have ended, and no detached actor is left."""
    at_work = {actor["JobID"] for actor in actors if actor["State"] != "DEAD"}
    return {ident for ident, job in jobs.items() if job["dead"]} - at_work


def join(known: Known, dead: Iterable[tuple[str, int, dict[str, Any]]]) -> Known:
    """One entry for each process id: if it has been used again, `before` has the dead actors."""
    for node, pid, labels in dead:
        if pid == NOWHERE:
            known.setdefault(node, {}).setdefault(pid, {}).setdefault("before", []).append(labels)
            continue
        there = known.setdefault(node, {}).get(pid)
        if there is None or 0 < there.get("began", 0) <= (labels["ended"] or float("inf")):
            known[node][pid] = labels  # the table of workers may be later than the one of actors
        else:
            there.setdefault("before", []).append(labels)
    return known


def name_job(labels: dict[str, Any], job: str, jobs: Mapping[str, Any]) -> None:
    if job:
        labels["job"] = f"ray-{job}"
        labels["job_began"] = jobs.get(job, {}).get("began", 0)
        labels["names"].update(jobs.get(job, {}).get("names", {}), ray_job=labels["job"])


def find_jobs(state: Any) -> dict[str, dict[str, Any]]:
    """By id: the driver (address and pid), whether it has ended, when the job began (in ms), and its
    names."""
    messages = importlib.import_module("ray.core.generated.gcs_pb2")
    accessor = state.state._connect_and_get_accessor()
    try:
        table = accessor.get_job_table(
            skip_submission_job_info_field=True, skip_is_running_tasks_field=True
        )
    except TypeError:  # Ray before 2.10
        table = accessor.get_job_table()
    jobs = {}
    for entry in map(messages.JobTableData.FromString, table):
        submission = entry.config.metadata.get("job_submission_id", "")
        names = {"submission": submission, "entrypoint": entry.entrypoint[:_LONGEST_NAME]}
        jobs[entry.job_id.hex()] = {
            "driver": (entry.driver_address.ip_address, entry.driver_pid),
            "dead": entry.is_dead,
            "began": entry.start_time,
            "names": {kind: name for kind, name in names.items() if name},
        }
    return jobs


def number_actors(actors: Sequence[Actor]) -> dict[str, int]:
    """The actors of each job and class are counted, those that have died too: so the numbers of the
    others stay."""

    def in_order(actor: Actor) -> tuple[Any, ...]:
        if actor["StartTime"]:
            _first_start.setdefault(actor["ActorID"], actor["StartTime"])
        began = _first_start.get(actor["ActorID"], float("inf"))  # it waits for resources
        return natural(actor["Name"]), began, actor["ActorID"]

    counts: dict[tuple[str, str], int] = {}
    numbers = {}
    for actor in sorted(actors, key=in_order):
        kind = actor["JobID"], class_of(actor)
        numbers[actor["ActorID"]] = counts[kind] = counts.get(kind, -1) + 1
    return numbers


# By actor: a restart gives it another time of start.
_first_start: dict[str, float] = {}


def class_of(actor: Actor) -> str:
    return str(actor["ActorClassName"].rpartition(".")[2])


def labels_of_actor(actor: Actor, numbers: Mapping[str, int]) -> dict[str, Any]:
    name = class_of(actor)
    labels: dict[str, Any] = {"engine": "ray", "part": name, "role": name}
    labels["place"] = numbers[actor["ActorID"]]
    labels["names"] = {"actor": actor["Name"], "actor_id": actor["ActorID"]}
    if actor.get("NumRestarts", 0) > 0:
        labels["restart"] = actor["NumRestarts"]
    return labels


def why_dead(actor: Actor) -> str:
    """Why an actor has no process; `` if its job wanted that: it was no longer used, or the job
    killed it."""
    if actor["State"] == "RESTARTING":
        return f"Ray is restarting it (restart {actor['NumRestarts']})"
    cause = actor["DeathCause"]
    kind = cause.WhichOneof("context")
    if kind != "actor_died_error_context":
        return _DEATHS.get(kind, "it died")
    context = cause.actor_died_error_context
    if context.reason in _WANTED_ENDS:
        return ""
    lines = [line.strip() for line in context.error_message.splitlines()]
    return next(filter(None, lines), "it died")[:_LONGEST_NAME]


def natural(name: str) -> list[tuple[str, int]]:
    """trainer-2 comes before trainer-10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def find_workers(state: Any) -> list[Any]:
    """The living: workers (0), drivers (1), and those that move objects."""
    messages = importlib.import_module("ray.core.generated.gcs_pb2")
    table = state.state._connect_and_get_accessor().get_worker_table()
    workers = [messages.WorkerTableData.FromString(entry) for entry in table]
    return [
        each
        for each in workers
        if each.is_alive and each.worker_type in (0, 1, *_MOVERS) and each.pid
    ]


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
