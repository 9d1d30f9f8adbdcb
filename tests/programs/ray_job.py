"""A driver of Ray with a trainer on each node and a task. What they do is the second argument."""

from __future__ import annotations

import os
import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
class Trainer:
    def __init__(self, rank):
        os.environ["RANK"] = str(rank)  # as Ray Train does
        self.rank = rank

    def step(self, what):
        loss = self.rank * 10
        if what == "stops":
            breakpoint()
        elif what == "fails":
            raise ValueError(f"loss is {loss}")
        else:
            wait(what)
        return loss

    def pid(self):
        return os.getpid()


@ray.remote(num_cpus=0)
class Rollout:
    async def generate(self, what):
        tokens = [1, 2, 3]
        if what == "stops":
            breakpoint()
        elif what == "fails":
            return tokens[3]
        return tokens


@ray.remote(num_cpus=0, max_retries=0)
def load(what):
    shard = 7
    if what == "stops":
        breakpoint()
    elif what == "fails":
        return shard / 0
    else:
        wait(what)
    return shard


def wait(what):
    steps = 0
    while what == "waits":
        steps += 1
        time.sleep(0.02)


def make_trainers(**options):
    nodes = sorted((node["NodeManagerAddress"], node["NodeID"]) for node in ray.nodes())
    return [
        Trainer.options(
            name=f"trainer-{rank}",
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            **options,
        ).remote(rank)
        for rank, (_, node) in enumerate(nodes)
    ]


def main(address, what):
    ray.init(address=address, namespace=what, logging_level="ERROR")
    trainers = make_trainers()
    rollout = Rollout.remote()
    running = [trainer.step.remote(what) for trainer in trainers]
    running += [load.remote(what), rollout.generate.remote(what)]
    results = []
    for each in running:
        try:
            results.append(ray.get(each))
        except ray.exceptions.RayTaskError as error:
            results.append(type(error.cause).__name__)
    if what == "stops":
        breakpoint()
    print(results, flush=True)


def without_rankdbg(address, what):
    """Nobody has started this under rankdbg; one actor brings the agent by itself."""
    import rankdbg.ray

    ray.init(address=address, namespace=what, logging_level="ERROR")
    trainers = make_trainers()
    own = Trainer.options(name="trainer-2", runtime_env=rankdbg.ray.runtime_env()).remote(2)
    running = [trainers[0].step.remote("waits"), trainers[1].step.remote("stops")]
    ray.get([*running, own.step.remote("waits")])


if sys.argv[2] == "without_rankdbg":
    without_rankdbg(*sys.argv[1:])
else:
    main(*sys.argv[1:])
