"""Workers whose nsys has not ended: it writes, or will. On this node, and on others of Ray's.

Also a program of its own, whose text is sent on a command line, as are its tasks to nodes that
need no rankdbg: at its end Python starts no threads any more, and Ray needs some.

    python -c TEXT ADDRESS JOB UNDER SECONDS
    <- waits up to 30 s for nsys's reports of vllm_worker on 10.0.0.2
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Set for nsys and what runs under it: the worker's name.
WORKER = "RANKDBG_NSYS_WORKER"
LOOK_EVERY = 0.1
# For a task to begin on another node.
START_SECONDS = 60.0
REACH_SECONDS = 5.0


def find(job: str, under: str) -> set[str]:
    """The names of workers whose nsys is there. What runs below it has the variable `under`."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                content = file.read()
        except OSError:  # it has ended, or is somebody else's
            continue
        variables = dict(
            entry.partition("=")[::2] for entry in os.fsdecode(content).split("\0") if entry
        )
        worker = variables.get(WORKER)
        if worker and under not in variables and variables.get("RANKDBG_JOB", "") == job:
            found.add(worker)
    return found


def wait(job: str, under: str, seconds: float) -> set[str]:
    """Until all have ended, or for so long: those that have not."""
    deadline = monotonic() + seconds
    while (writing := find(job, under)) and monotonic() < deadline:
        sleep(LOOK_EVERY)
    return writing


def waiting(seconds: float, names: str) -> str:
    return f"waits up to {seconds:g} s for nsys's reports of {names}"


def not_ended(names: str) -> str:
    return f"nsys has not ended yet: {names}; RANKDBG_NSYS_WAIT=SECONDS waits longer"


# --- on other nodes ---------------------------------------------------------------------------


def _main(address: str, job: str, under: str, seconds: float) -> None:
    others = _Others(_join(address))
    if names := others.ask(find, job, under, seconds=START_SECONDS):
        _say(waiting(seconds, names))
        if late := others.ask(wait, job, under, seconds, seconds=seconds + START_SECONDS):
            _say(not_ended(late))


def _join(address: str) -> Any:
    """The cluster, unless it has ended with the driver that had started it."""
    import importlib
    import socket

    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    ray: Any = importlib.import_module("ray")
    ray.init(address=address, namespace="rankdbg", log_to_driver=False, logging_level="ERROR")
    return ray


class _Others:
    """All other nodes, on each of which a task can look."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        here = ray.get_runtime_context().get_node_id()
        alive = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] != here]
        self._nodes = {node["NodeID"]: str(node["NodeManagerAddress"]) for node in alive}

    def ask(self, question: Callable[..., set[str]], *words: object, seconds: float) -> str:
        """Whom the nodes have named, and where; of those that have answered in time."""
        strategies = self._ray.util.scheduling_strategies
        task = self._ray.remote(question)
        asked = {}
        for node, address in self._nodes.items():
            pinned = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
            options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": pinned}
            asked[task.options(**options).remote(*words)] = address
        ready, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=seconds)
        named = []
        for answer in ready:
            try:
                named += [f"{name} on {asked[answer]}" for name in self._ray.get(answer)]
            except Exception:  # a node that has gone away
                continue
        return ", ".join(sorted(named))


def _say(line: str) -> None:
    sys.stdout.write(f"rankdbg: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        _main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
    finally:
        os._exit(0)
