"""python _monarch_actors.py ACTORS: Monarch actors, a process each, that stop at a breakpoint."""

from __future__ import annotations

import sys

from monarch.actor import Actor, current_rank, endpoint, this_host
from monarch.config import configure


class Stopping(Actor):
    @endpoint
    def steps(self) -> int:
        x = current_rank().rank % 2
        breakpoint()
        return x


if __name__ == "__main__":
    # What it gives them otherwise (half a minute) is not enough on a busy machine.
    patience = "200s"
    configure(
        host_spawn_ready_timeout=patience,
        mesh_proc_spawn_max_idle=patience,
        actor_spawn_max_idle=patience,
    )
    actors = this_host().spawn_procs(per_host={"gpus": int(sys.argv[1])}).spawn("bench", Stopping)
    actors.steps.call().get()
