"""Finds workers whose nsys still runs, on this node and on other nodes of Ray, and waits for them.

Also a program of its own, whose text is passed on a command line: a Python that exits starts no
threads any more, and Ray needs threads. Its tasks run on nodes without rankdbg.

    python -c TEXT ADDRESS JOB UNDER SECONDS
    <- waiting up to 30 s for the nsys reports of vllm_worker on 10.0.0.2
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
POLL_SECONDS = 0.1
# For a task to start on another node.
START_SECONDS = 60.0
REACH_SECONDS = 5.0


def find(job: str, under: str) -> set[str]:
    """The names of workers whose nsys still runs. Processes under nsys have the variable `under`;
    nsys itself has not. An nsys above this process is skipped: it waits for this process."""
    found = set()
    above = _above_us()
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) in above:
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                content = file.read()
        except OSError:  # it has exited, or belongs to another user
            continue
        variables = dict(
            entry.partition("=")[::2] for entry in os.fsdecode(content).split("\0") if entry
        )
        worker = variables.get(WORKER)
        if worker and under not in variables and variables.get("RANKDBG_JOB", "") == job:
            found.add(worker)
    return found


def _above_us() -> set[int]:
    pid, above = os.getppid(), set()
    while pid > 1 and pid not in above:
        above.add(pid)
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            break
    return above


def wait(job: str, under: str, seconds: float) -> set[str]:
    """Until all have exited, or for this long. Returns those that still run."""
    deadline = monotonic() + seconds
    while (writing := find(job, under)) and monotonic() < deadline:
        sleep(POLL_SECONDS)
    return writing


def waiting(seconds: float, names: str) -> str:
    return f"waiting up to {seconds:g} s for the nsys reports of {names}"


def not_ended(names: str) -> str:
    return f"nsys is still running: {names}; RANKDBG_NSYS_WAIT=SECONDS waits longer"


# --- on other nodes ---------------------------------------------------------------------------


def _main(address: str, job: str, under: str, seconds: float) -> None:
    others = _Others(_join(address))
    if names := others.ask(find, job, under, seconds=START_SECONDS):
        _say(waiting(seconds, names))
        if late := others.ask(wait, job, under, seconds, seconds=seconds + START_SECONDS):
            _say(not_ended(late))


def _join(address: str) -> Any:
    """Connect to the cluster. Raises if it has ended with the driver that had started it."""
    import importlib
    import socket

    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    ray: Any = importlib.import_module("ray")
    ray.init(address=address, namespace="rankdbg", log_to_driver=False, logging_level="ERROR")
    return ray


class _Others:
    """All other nodes, on each of which a task can run."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        here = ray.get_runtime_context().get_node_id()
        alive = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] != here]
        self._nodes = {node["NodeID"]: str(node["NodeManagerAddress"]) for node in alive}

    def ask(self, question: Callable[..., set[str]], *words: object, seconds: float) -> str:
        """The workers and their nodes, from the nodes that have answered in time."""
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
            except Exception:  # the node is gone
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
