"""python ray_trouble.py ADDRESS: an actor on each node of Ray, and one whose environment is never
ready. It stays whatever happens to them."""

from __future__ import annotations

import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
class Trainer:
    def step(self):
        time.sleep(3600)


def main(address):
    ray.init(address=address)
    nodes = sorted((node["NodeManagerAddress"], node["NodeID"]) for node in ray.nodes())
    pinned = [NodeAffinitySchedulingStrategy(node, soft=False) for _, node in nodes]
    trainers = [Trainer.options(scheduling_strategy=each).remote() for each in pinned]
    running = [trainer.step.remote() for trainer in trainers]
    environment = {"conda": {"dependencies": ["no-such-package=9.9"]}}
    unprepared = Trainer.options(scheduling_strategy=pinned[0], runtime_env=environment).remote()
    running.append(unprepared.step.remote())
    time.sleep(3600)


main(*sys.argv[1:])
