"""When it exits, a Ray driver waits for the reports that the nsys of its workers still write.

A container or a Slurm step ends with its first process, which often is the driver, and a Slurm
job with its script: all processes that still run there are killed. For the other nodes of the
cluster, a separate process waits (nsys_writers.py).
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

from rankdbg import ray as worker_environments
from rankdbg.agent import messages
from rankdbg.agent.nsys import nsys_report, nsys_writers
from rankdbg.process import nsys_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# For the separate process to import Ray, to connect, and to start a task on every node.
JOIN_SECONDS = 90.0
_cluster = ""


def joined(context: Any) -> None:
    """This process has joined a cluster: remember its address. A process that uses Ray Client has
    joined none itself."""
    global _cluster
    known = getattr(context, "address_info", None)
    _cluster = str(known.get("gcs_address") or "") if isinstance(known, dict) else ""


def wait() -> None:
    """Wait if this process has had workers under nsys. Its own connection to Ray is closed by now,
    so the workers are about to exit."""
    try:
        if _has_profiled_workers():
            wait_until_written()
    except KeyboardInterrupt:  # the user does not want to wait
        pass


def wait_until_written() -> None:
    seconds = nsys_report.wait_seconds()
    elsewhere = _wait_elsewhere(seconds) if _cluster and seconds else 0
    try:
        _wait_here(seconds)
        deadline = monotonic() + JOIN_SECONDS + seconds
        while _is_alive(elsewhere) and monotonic() < deadline:
            sleep(nsys_writers.POLL_SECONDS)
    finally:
        if _is_alive(elsewhere):
            os.killpg(elsewhere, 9)


def _wait_here(seconds: float) -> None:
    if writing := nsys_writers.find(_job(), nsys_config.UNDER_NSYS):
        messages.write(nsys_writers.waiting(seconds, ", ".join(sorted(writing))))
    if writing and (late := nsys_writers.wait(_job(), nsys_config.UNDER_NSYS, seconds)):
        messages.write(nsys_writers.not_ended(", ".join(sorted(late))))


def _wait_elsewhere(seconds: float) -> int:
    """Start the process that waits on other nodes; returns its pid, 0 if it cannot be started. It
    has a process group of its own: Ctrl-C reaches only this process, which then kills it. Its
    messages go to stderr; Ray's messages are discarded."""
    left_out = {
        *worker_environments.OTHERS_SETTINGS,
        *(key for key in os.environ if key.startswith("RANKDBG")),
    }
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    try:
        with open(nsys_writers.__file__) as file:
            words = [sys.executable, "-c", file.read(), _cluster, _job(), nsys_config.UNDER_NSYS]
        return os.posix_spawn(
            sys.executable,
            [*words, str(seconds)],
            {**environment, "RANKDBG": "0"},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, 2, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setpgroup=0,
        )
    except (OSError, ValueError):
        return 0


def _is_alive(child: int) -> bool:
    """A child that has exited is reaped by this call. The program may have reaped it before."""
    try:
        return child > 0 and os.waitpid(child, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def _job() -> str:
    return os.environ.get("RANKDBG_JOB", "")


def _has_profiled_workers() -> bool:
    ray: Any = sys.modules.get("ray")
    try:
        return bool(ray and worker_environments.any_is_profiled() and not ray.is_initialized())
    except Exception:  # Ray is being shut down
        return False
