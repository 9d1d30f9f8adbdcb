"""The card: the identity of this process, as a file beside its socket.

The identity changes while a program runs (it sets RANK, initialises torch's process group,
reshapes its mesh). So the agent makes its card anew for each roster, and rewrites the file when
the card has changed: the file is what nodes read when the process hangs.
"""

from __future__ import annotations

import os
import stat
import sys

from rankdbg import wire
from rankdbg._version import __version__
from rankdbg.agent import active
from rankdbg.process import identity, rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The arguments of init() and set_mesh(). A forked child inherits all but the rank.
chosen: dict[str, Any] = {}
# The last step that the program reported with progress(). Not in the file: it can change a
# thousand times a second.
step: int | None = None
# Called at each step, until it has been done: replicas/step_work.py.
step_work: list[Callable[[int], None]] = []
# Called at each step: nsys/capture.py sets it, in a rank under nsys.
at_step: Callable[[int], None] | None = None
# The process that started this one, also after that has ended: it distinguishes ranks that outlive
# several launchers.
_started_by = os.getppid()


def _after_fork() -> None:
    chosen.pop("rank", None)  # the parent's


active.after_fork.append(_after_fork)


def make() -> dict[str, Any]:
    command = [str(word) for word in getattr(sys, "orig_argv", sys.argv)]
    labels = identity.of_process(_title(), command, os.environ)
    labels.update(_from_multiprocessing())
    _add_from_ray(labels)
    labels.update(_from_monarch(labels))
    _add_from_program(labels)
    labels.update(chosen)
    if "rank" in chosen:
        labels["source"] = "init"
    parent = os.getppid() if active.forked else _started_by
    labels.setdefault("job", identity.made_up_job(command, parent))
    return {
        "card": 1,
        "protocol": list(wire.PROTOCOL),
        "version": __version__,
        "pid": os.getpid(),
        "ppid": parent,
        "start": rendezvous.start_time(),
        "pid_namespace": rendezvous.pid_namespace(),
        "host": os.uname().nodename,
        "python": "{}.{}.{}".format(*sys.version_info),
        "executable": sys.executable or "",
        "command": command[:200],
        "directory": _working_directory(),
        "outputs": _outputs(),
        "labels": labels,
    }


def _title() -> str:
    """The command line as the kernel shows it: setproctitle() changes it."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def _outputs() -> dict[str, str]:
    """The files that stdout and stderr go into: the logs of this process when it has died."""
    found = {}
    for number, name in ((1, "stdout"), (2, "stderr")):
        try:
            if stat.S_ISREG(os.fstat(number).st_mode):
                found[name] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # it is closed
            pass
    return found


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # the directory has been removed
        return ""


def _add_from_program(labels: dict[str, Any]) -> None:
    """Add what the program's frameworks know. A rank from a weaker source than the present one is
    left out, and so are coordinates if the user has given a mesh."""
    coordinates: dict[str, int] = {}
    for read in active.label_readers:
        try:
            found = read()
        except Exception:  # it is being imported, changed or torn down in another thread
            continue
        coordinates.update(found.pop("coordinates", {}))
        if "source" in found and _is_nearer(found["source"], labels.get("source")):
            labels.update(found)
    if coordinates and not ("mesh" in labels or "mesh" in chosen):
        labels["coordinates"] = {**coordinates, **labels.get("coordinates", {})}


def _is_nearer(source: str, other: str | None) -> bool:
    """Whether a source of the rank is nearer to the program."""
    return other is None or identity.SOURCES.index(source) < identity.SOURCES.index(other)


def _add_from_ray(labels: dict[str, Any]) -> None:
    """The job in Ray, and whether this is its driver, once the program is connected to Ray."""
    module = sys.modules.get("ray._private.worker")
    try:
        worker = getattr(module, "global_worker", None)
        if worker is None or not worker.connected:
            return
        identity.name_job(labels, f"ray-{worker.current_job_id.hex()}")
        if worker.mode == 0 and not {"engine", "rank"} & labels.keys():  # SCRIPT_MODE
            labels.update(engine="ray", part="driver", role=labels.get("role", "driver"))
    except Exception:  # Ray is being imported, connected or torn down in another thread
        pass


def _from_monarch(labels: dict[str, Any]) -> dict[str, Any]:
    """From Monarch's actors, once this proc has some. A mesh or a role that the user has given
    takes precedence."""
    if active.actor_labels is None or labels.get("engine") != "monarch":
        return {}
    found = active.actor_labels()
    if found:
        found["names"] = {**labels.get("names", {}), **found["names"]}
    if "mesh" in labels or "mesh" in chosen:
        found.pop("coordinates", None)
    if os.environ.get("RANKDBG_ROLE"):
        found.pop("role", None)
    return found


def _from_multiprocessing() -> dict[str, Any]:
    """The number of this child of multiprocessing, and the function that it runs."""
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
