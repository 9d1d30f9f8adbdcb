"""python _monarch_actors.py PROCS: a mesh of Monarch procs under rankdbg, each with two actors.

`bench` is stopped at a breakpoint in rankdbg, `theirs` at the same breakpoint in Monarch's own
debugger: a thread can be in one debugger only, and so both have a thread of each process.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

from monarch._src.actor.debugger import breakpoint as monarchs
from monarch.actor import Actor, current_rank, endpoint, this_host
from monarch.config import configure


def monarchs_hook() -> Callable[[], None]:
    """Monarch's breakpoint hook, which an agent replaces in the module itself."""
    spec = importlib.util.spec_from_file_location("monarchs_own_hook", monarchs.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook: Callable[[], None] = module.remote_breakpointhook
    return hook


class Stopping(Actor):
    @endpoint
    def steps(self) -> int:
        x = current_rank().rank % 2
        breakpoint()
        return x


class StoppingInMonarch(Actor):
    @endpoint
    def steps(self) -> int:
        stop = monarchs_hook()
        x = current_rank().rank % 2
        stop()
        return x


if __name__ == "__main__":
    # What it gives them otherwise (half a minute) is not enough on a busy machine.
    patience = "200s"
    configure(
        host_spawn_ready_timeout=patience,
        mesh_proc_spawn_max_idle=patience,
        actor_spawn_max_idle=patience,
    )
    procs = this_host().spawn_procs(per_host={"gpus": int(sys.argv[1])})
    meshes = [procs.spawn("bench", Stopping), procs.spawn("theirs", StoppingInMonarch)]
    calls = [mesh.steps.call() for mesh in meshes]
    for call in calls:
        call.get()
