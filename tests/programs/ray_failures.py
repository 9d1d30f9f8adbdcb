"""python ray_failures.py ADDRESS HOW: a driver of Ray whose actors fail in one of several ways.

It stays when they have failed, as a driver does that somebody has yet to look at.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


def say(text):
    moment = time.strftime("%Y-%m-%d %H:%M:%S")
    sys.stderr.write(f"[{moment}] {text}\n")
    sys.stderr.flush()


@ray.remote(num_cpus=0)
class Trainer:
    def __init__(self, rank, how):
        os.environ["RANK"] = str(rank)
        if how == "constructor" and rank == 1:
            raise FileNotFoundError("no checkpoint /data/step-100")

    def step(self, how, rank):
        say("step 1")
        if rank == 1:
            if how == "raises":
                raise ValueError("shard 7 is damaged")
            if how == "killed":  # as the kernel does it when memory is short
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "exits":
                os._exit(3)
        time.sleep(3600)


@ray.remote(num_cpus=0)
class SglEngine:
    def serve(self):
        say("Load weight begin. avail mem=78.00 GB")
        say("Capture cuda graph begin. This can take up to several minutes. avail mem=11.53 GB")
        time.sleep(3600)


def main(address, how):
    ray.init(address=address, namespace=how)
    nodes = sorted((node["NodeManagerAddress"], node["NodeID"]) for node in ray.nodes())
    pinned = [NodeAffinitySchedulingStrategy(node, soft=False) for _, node in nodes]
    if how == "slow":
        engines = [SglEngine.options(scheduling_strategy=each).remote() for each in pinned]
        ray.get([engine.serve.remote() for engine in engines])
    if how == "unscheduled":
        group = placement_group([{"GPU": 8}] * 2)
        print("waiting for the placement group", flush=True)
        ray.get(group.ready())
    trainers = [
        Trainer.options(name=f"trainer-{rank}", scheduling_strategy=each).remote(rank, how)
        for rank, each in enumerate(pinned)
    ]
    running = [trainer.step.remote(how, rank) for rank, trainer in enumerate(trainers)]
    try:
        ray.get(running)
    except ray.exceptions.RayError:
        traceback.print_exc()
    time.sleep(3600)


main(*sys.argv[1:])
