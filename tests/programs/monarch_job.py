"""A client of Monarch with four procs. What its actors do is the argument."""

from __future__ import annotations

import sys
import time

import monarch.actor
from monarch.actor import Actor, current_rank, endpoint, this_host
from monarch.config import configure


class Trainer(Actor):
    def __init__(self):
        self.steps = 0

    @endpoint
    def step(self, what):
        loss = current_rank().rank * 10
        if what == "stops":
            breakpoint()
        elif what == "fails" and loss == 30:
            raise ValueError(f"loss is {loss}")
        wait(what)
        return loss

    @endpoint
    def tick(self):
        self.steps += 1
        return self.steps


class Rollout(Actor):
    @endpoint
    async def generate(self, what):
        tokens = [1, 2, 3]
        if what == "stops":
            breakpoint()
        elif what == "fails":
            return tokens[3]
        return tokens


def wait(what):
    turns = 0
    while what == "waits":
        turns += 1
        time.sleep(0.02)


def outcome(call):
    """What the call has brought, or the kind of what it raised."""
    try:
        return [value for _, value in call.get().items()]
    except Exception as error:
        return type(getattr(error, "exception", error)).__name__


def two_meshes_of_one_name():
    meshes = [
        this_host().spawn_procs(per_host={"gpus": 2}).spawn("trainer", Trainer) for _ in range(2)
    ]
    return [mesh.step.call("stops") for mesh in meshes]


def main(what):
    # What it gives them otherwise (half a minute) is not enough on a busy machine.
    patience = "120s"
    configure(
        host_spawn_ready_timeout=patience,
        mesh_proc_spawn_max_idle=patience,
        actor_spawn_max_idle=patience,
    )
    if what == "meshes":
        # A proc that is killed would end the client, and the client everybody else.
        monarch.actor.unhandled_fault_hook = lambda failure: None
        running = two_meshes_of_one_name()
    else:
        procs = this_host().spawn_procs(per_host={"dp": 2, "tp": 2}, name="workers")
        trainers, rollouts = procs.spawn("trainer", Trainer), procs.spawn("rollout", Rollout)
        if what == "ticks":
            tick_for_ever(trainers.rename(dp="replica"))
        running = [trainers.step.call(what)]
        if what in ("stops", "fails"):  # these in the same procs, and on a slice of them
            running.append(rollouts.slice(dp=1).generate.call(what))
    print([outcome(call) for call in running], flush=True)


def tick_for_ever(trainers):
    while True:
        trainers.tick.call().get()
        time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1])
