"""The card: who this process is, as a file for all who list the directory.

What can be asked changes while a program runs (it sets RANK, initialises torch's
process group, reshapes its mesh), so the agent makes its card anew for each roster,
and rewrites the file when it has changed: it is what is left when the process hangs.
"""

from __future__ import annotations

import os
import sys

from rankdbg import __version__, identity, rendezvous, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# What the program itself said, with init() and set_mesh(). A forked child inherits all
# but the rank: that it must be told.
chosen: dict[str, Any] = {}
# The step that the program has told last, with progress(). No part of the file: it changes
# a thousand times a second.
step: int | None = None
# What wants to know of each step: agent/capture.py, in a rank under nsys.
at_step: Callable[[int], None] | None = None


def make() -> dict[str, Any]:
    command = [str(word) for word in getattr(sys, "orig_argv", sys.argv)]
    labels = identity.of_process(_title(), command, os.environ)
    labels.update(_from_multiprocessing())
    labels.update(_from_ray(labels))
    labels.update(_from_monarch(labels))
    labels.update(_from_torch())
    labels.update(chosen)
    if "rank" in chosen:
        labels["source"] = "init"
    labels.setdefault("job", identity.made_up_job(command, os.getppid()))
    return {
        "card": 1,
        "protocol": list(wire.PROTOCOL),
        "version": __version__,
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "start": rendezvous.start_time(),
        "pid_namespace": rendezvous.pid_namespace(),
        "host": os.uname().nodename,
        "python": "{}.{}.{}".format(*sys.version_info),
        "executable": sys.executable or "",
        "command": command[:200],
        "directory": _working_directory(),
        "labels": labels,
    }


def _title() -> str:
    """The command line as the kernel has it: what setproctitle() changes."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it has been removed
        return ""


def _from_torch() -> dict[str, Any]:
    """What torch.distributed says, once the program has initialised it."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_initialized():
            return {
                "rank": distributed.get_rank(),
                "world": distributed.get_world_size(),
                "source": "torch",
            }
    except Exception:  # torch is being imported or torn down in another thread
        pass
    return {}


def _from_ray(labels: dict[str, Any]) -> dict[str, Any]:
    """Ray's job, and that this is its driver, once the program is connected to Ray."""
    module = sys.modules.get("ray._private.worker")
    found: dict[str, Any] = {}
    try:
        worker = getattr(module, "global_worker", None)
        if worker is None or not worker.connected:
            return {}
        if "job" not in labels:
            found["job"] = f"ray-{worker.current_job_id.hex()}"
        if worker.mode == 0 and not {"engine", "rank"} & labels.keys():  # SCRIPT_MODE
            found.update(engine="ray", part="driver", role=labels.get("role", "driver"))
    except Exception:  # Ray is being imported, connected or torn down in another thread
        pass
    return found


def _from_monarch(labels: dict[str, Any]) -> dict[str, Any]:
    """What Monarch's actors say, once this proc has some. A mesh or a role that the user has
    named is the user's."""
    module = sys.modules.get("rankdbg.agent.in_monarch")
    if module is None or labels.get("engine") != "monarch":
        return {}
    found: dict[str, Any] = module.labels()
    if found:
        found["names"] = {**labels.get("names", {}), **found["names"]}
    if "mesh" in labels or "mesh" in chosen:
        found.pop("coordinates", None)
    if os.environ.get("RANKDBG_ROLE"):
        found.pop("role", None)
    return found


def _from_multiprocessing() -> dict[str, Any]:
    """Which child of multiprocessing this is, and what it runs."""
    module = sys.modules.get("multiprocessing.process")
    process = getattr(module, "_current_process", None)
    place = getattr(process, "_identity", None)
    if not place:
        return {}
    target = getattr(process, "_target", None)
    return {
        "multiprocessing": {
            "index": place[-1],
            "depth": len(place),
            "target": f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', '')}",
        }
    }
