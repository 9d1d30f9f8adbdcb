"""The driver of Ray's workers waits at its end for the reports that their nsys still writes.

A container or a Slurm step ends with its first process, which often is the driver, and a Slurm
job with its script: then all that still runs there is killed. On the other nodes of the cluster
a process of its own does the waiting (agent/nsys_writers.py).
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

from rankdbg import nsys
from rankdbg.agent import nsys_report, nsys_writers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# To import Ray, to connect, and to start a task on every node.
JOIN_SECONDS = 90.0
_cluster = ""


def joined(context: Any) -> None:
    """This process has joined a cluster: where it is, for when it has left it. By Ray Client it
    has joined none itself."""
    global _cluster
    known = getattr(context, "address_info", None)
    _cluster = str(known.get("gcs_address") or "") if isinstance(known, dict) else ""


def wait() -> None:
    """If this process has had any workers under nsys. Its own connection to Ray is closed by now,
    and so they are about to end."""
    try:
        if _has_profiled_workers():
            wait_until_written()
    except KeyboardInterrupt:  # somebody has had enough
        pass


def wait_until_written() -> None:
    seconds = nsys_report.wait_seconds()
    elsewhere = _wait_elsewhere(seconds) if _cluster and seconds else 0
    try:
        _wait_here(seconds)
        deadline = monotonic() + JOIN_SECONDS + seconds
        while _is_alive(elsewhere) and monotonic() < deadline:
            sleep(nsys_writers.LOOK_EVERY)
    finally:
        if _is_alive(elsewhere):
            os.killpg(elsewhere, 9)


def _wait_here(seconds: float) -> None:
    if writing := nsys_writers.find(_job(), nsys.UNDER_NSYS):
        _say(nsys_writers.waiting(seconds, ", ".join(sorted(writing))))
    if writing and (late := nsys_writers.wait(_job(), nsys.UNDER_NSYS, seconds)):
        _say(nsys_writers.not_ended(", ".join(sorted(late))))


def _wait_elsewhere(seconds: float) -> int:
    """Its process, in a group of its own: a Ctrl-C is for this one, which then ends it. What it
    says goes to stderr, and what Ray says nowhere. 0 if it cannot be started."""
    from rankdbg.ray import OTHERS_SETTINGS

    left_out = {*OTHERS_SETTINGS, *(key for key in os.environ if key.startswith("RANKDBG"))}
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    try:
        with open(nsys_writers.__file__) as file:
            words = [sys.executable, "-c", file.read(), _cluster, _job(), nsys.UNDER_NSYS]
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
    """One that has ended is counted, and then known no more; so too where nobody counts."""
    try:
        return child > 0 and os.waitpid(child, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def _job() -> str:
    return os.environ.get("RANKDBG_JOB", "")


def _has_profiled_workers() -> bool:
    module: Any = sys.modules.get("rankdbg.ray")
    ray: Any = sys.modules.get("ray")
    try:
        return bool(module and ray and module.any_is_profiled() and not ray.is_initialized())
    except Exception:  # of a Ray that is half gone
        return False


def _say(line: str) -> None:
    try:
        sys.stderr.write(f"rankdbg: {line}\n")
        sys.stderr.flush()
    except Exception:  # closed, or None
        pass
