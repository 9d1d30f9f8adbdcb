"""Ray's own tables as plain values: tasks, actors, placement groups, nodes, workers that move objects.

Part of the program that ray_driver.py is, on the Python that has Ray; its text is sent with the
start message. wire/ray_tables.py has the types of what it returns.

Everything is read from the GCS, so that no dashboard is needed. Workers report their tasks once a
second: the table is that old. Of tasks that have ended only figures for each function are returned.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable
from typing import Any

_LONGEST_TEXT = 300
_ENDED = ("FINISHED", "FAILED")
_MOST_TASKS = 10_000  # of those that have not ended; the oldest first
_DRIVER = 3  # TaskType
_MOVERS = {2: "spill", 3: "restore"}  # WorkerType: those that write and read spilled objects


def find_tables(ray: Any, job: str) -> dict[str, Any]:
    """What belongs to this job, and of others what takes resources."""
    state = importlib.import_module("ray._private.state")
    protos = importlib.import_module("ray.core.generated.gcs_pb2")
    accessor = state.state._connect_and_get_accessor()
    ours = ray.get_runtime_context().get_job_id()
    tasks, functions = find_tasks(state, job, ours)
    actors = [protos.ActorTableData.FromString(entry) for entry in _actor_table(accessor)]
    groups = map(protos.PlacementGroupTableData.FromString, accessor.get_placement_group_table())
    workers = [protos.WorkerTableData.FromString(each) for each in accessor.get_worker_table()]
    exits = {_process(w): w.exit_detail for w in workers if not w.is_alive}
    return {
        "at": time.time(),
        "tasks": tasks,
        "functions": functions,
        "actors": [_actor(protos, each, exits) for each in actors if each.job_id.hex() != ours],
        "groups": [_group(protos, each) for each in groups],
        "nodes": find_resources(state, ray.nodes()),
        "movers": [
            {"node": w.worker_address.node_id.hex(), "pid": w.pid, "kind": _MOVERS[w.worker_type]}
            for w in workers
            if w.is_alive and w.pid and w.worker_type in _MOVERS
        ],
        "growth": _growth(state),
    }


def _actor_table(accessor: Any) -> Iterable[bytes]:
    try:
        table: Iterable[bytes] = accessor.get_actor_table(None, None)
    except TypeError:  # Ray before 2.7
        table = accessor.get_actor_table()
    return table


# --- tasks --------------------------------------------------------------------------------


def find_tasks(state: Any, job: str, ours: str) -> tuple[list[dict[str, Any]], list[Any]]:
    """Those that have not ended, and figures about the others of this job by function."""
    read = getattr(state.state, "_get_all_task_events", None) or _reader(state)
    last: dict[str, Any] = {}  # by task: its last attempt
    for event in read():
        known = last.get(ident := event.task_id.hex())
        if known is None or event.attempt_number >= known.attempt_number:
            last[ident] = event
    now = time.time()
    tasks = []
    durations: dict[str, list[float | None]] = {}
    for event in last.values():
        owner = event.job_id.hex()
        times = _times(event)
        if owner == ours or not times or event.task_info.type == _DRIVER:
            continue
        latest = max(times, key=lambda name: times[name])
        if _ended(times):
            if owner == job:
                durations.setdefault(event.task_info.name, []).append(_duration(times))
        elif owner == job or "RUNNING" in times:
            tasks.append(_task(event, times, latest, now))
    tasks.sort(key=lambda task: -task["age"])
    return tasks[:_MOST_TASKS], [_figures(name, taken) for name, taken in durations.items()]


def _reader(state: Any) -> Any:
    protos = importlib.import_module("ray.core.generated.gcs_pb2")
    accessor = state.state._connect_and_get_accessor()
    return lambda: map(protos.TaskEvents.FromString, accessor.get_task_events())


def _times(event: Any) -> dict[str, float]:
    """state -> when the task entered it, in seconds since the epoch."""
    statuses = importlib.import_module("ray.core.generated.common_pb2").TaskStatus
    return {
        statuses.Name(number): stamp / 1e9
        for number, stamp in event.state_updates.state_ts_ns.items()
    }


def _ended(times: dict[str, float]) -> bool:
    return any(name in times for name in _ENDED)


def _duration(times: dict[str, float]) -> float | None:
    """For how long it ran; None if it failed, or that is not known."""
    if "FINISHED" not in times or "RUNNING" not in times:
        return None
    return times["FINISHED"] - times["RUNNING"]


def _figures(name: str, taken: list[float | None]) -> dict[str, Any]:
    known = sorted(each for each in taken if each is not None)
    return {
        "name": name,
        "finished": len(known),
        "failed": len(taken) - len(known),
        "longest": known[-1] if known else None,
    }


def _task(event: Any, times: dict[str, float], latest: str, now: float) -> dict[str, Any]:
    kinds = importlib.import_module("ray.core.generated.common_pb2").TaskType
    info, updates = event.task_info, event.state_updates
    running = times.get("RUNNING")
    return {
        "id": event.task_id.hex(),
        "attempt": event.attempt_number,
        "name": info.name or info.func_or_class_name,
        "kind": kinds.Name(info.type).lower(),
        "job": event.job_id.hex(),
        "parent": info.parent_task_id.hex(),
        "actor": info.actor_id.hex(),
        "group": info.placement_group_id.hex(),
        "state": latest,
        "age": now - min(times.values()),
        "ran": None if running is None else now - running,
        "needs": dict(info.required_resources),
        "node": updates.node_id.hex(),
        "pid": updates.worker_pid,
        "worker": updates.worker_id.hex(),
    }


# --- actors, groups, nodes ----------------------------------------------------------------


def _process(worker: Any) -> tuple[str, int]:
    return worker.worker_address.node_id.hex(), worker.pid


def _actor(protos: Any, actor: Any, exits: dict[tuple[str, int], str]) -> dict[str, Any]:
    """`exits`: why processes have ended, by node and pid."""
    node = actor.address.node_id.hex()
    return {
        "id": actor.actor_id.hex(),
        "name": actor.name,
        "role": actor.class_name.rpartition(".")[2],
        "job": actor.job_id.hex(),
        "state": protos.ActorTableData.ActorState.Name(actor.state),
        "restarts": actor.num_restarts,
        "most_restarts": actor.max_restarts,
        "needs": dict(actor.required_resources),
        "group": actor.placement_group_id.hex(),
        "node": node,
        "pid": actor.pid,
        "died": _why_died(actor.death_cause) or _first_line(exits.get((node, actor.pid), "")),
    }


def _why_died(cause: Any) -> str:
    """What Ray has about the last death of an actor."""
    kind = cause.WhichOneof("context")
    if kind is None:
        return ""
    text = str(getattr(getattr(cause, kind), "error_message", ""))
    return _first_line(text) or str(kind).removesuffix("_context").replace("_", " ")


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    return next(filter(None, lines), "")[:_LONGEST_TEXT]


def _group(protos: Any, group: Any) -> dict[str, Any]:
    stages = protos.PlacementGroupStats.SchedulingState
    began = group.stats.creation_request_received_ns / 1e9
    return {
        "id": group.placement_group_id.hex(),
        "name": group.name,
        "job": group.creator_job_id.hex(),
        "state": protos.PlacementGroupTableData.PlacementGroupState.Name(group.state),
        "stage": stages.Name(group.stats.scheduling_state),
        "strategy": importlib.import_module("ray.core.generated.common_pb2").PlacementStrategy.Name(
            group.strategy
        ),
        "bundles": [dict(bundle.unit_resources) for bundle in group.bundles],
        "age": time.time() - began if began else 0.0,
    }


def find_resources(state: Any, nodes: list[Any]) -> list[dict[str, Any]]:
    total = state.total_resources_per_node()
    free = state.available_resources_per_node()
    return [
        {
            "id": node["NodeID"],
            "alive": node["Alive"],
            "total": _plain(total.get(node["NodeID"], {})),
            "free": _plain(free.get(node["NodeID"], {})),
        }
        for node in nodes
        if node["Alive"]
    ]


def _plain(resources: dict[str, float]) -> dict[str, float]:
    """Without those that a placement group or a node has added: CPU_group_0_ab12, node:10.0.0.1."""
    return {n: v for n, v in resources.items() if "_group_" not in n and not n.startswith("node:")}


def _growth(state: Any) -> dict[str, float]:
    """What all nodes together can have once the autoscaler has added all that it may; empty
    without one."""
    try:
        most = state.state.get_max_resources_from_cluster_config()
    except Exception:  # Ray before 2.44, or without an autoscaler
        return {}
    return {name: float(value) for name, value in (most or {}).items()}
