"""Actors of Ray whose constructors take long, as those that load a model. They go on once a file
is there."""

from __future__ import annotations

import os
import sys
import time

import ray


@ray.remote(num_cpus=0)
class Model:
    def __init__(self, rank, go):
        os.environ["RANK"] = str(rank)
        self.weights = load_weights(go)

    def step(self):
        return len(self.weights)


def load_weights(go):
    weights = []
    while not os.path.exists(go):
        weights.append(len(weights) ** 2)  # a shard
        time.sleep(0.05)
    return weights


def main(address, go):
    ray.init(address=address, logging_level="ERROR")
    models = [Model.options(name=f"model-{rank}").remote(rank, go) for rank in range(2)]
    ray.get([model.step.remote() for model in models])
    print("first step", flush=True)


main(*sys.argv[1:])
