"""A Ray driver with two actors on each node, one of which fails in the way that it is told.

    crashing_actors.py ADDRESS FAULT

The faults are those of crashing_rank.py, of rank 3; `constructor` and `wait` beside them."""

from __future__ import annotations

import os
import sys
import time
import traceback

import crashing_rank
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

BAD = 3
LONG = 3600


@ray.remote(num_cpus=0, runtime_env={"env_vars": {"PYTHONPATH": os.path.dirname(__file__)}})
class Trainer:
    def __init__(self, rank: int, fault: str) -> None:
        crashing_rank.RANK = rank
        self._fault = fault
        if fault == "constructor" and rank == BAD:
            raise FileNotFoundError("no checkpoint /data/step-100")

    def train(self) -> None:
        steps = LONG if self._fault == "wait" else crashing_rank.STEPS
        for step in range(1, steps + 1):
            if step == crashing_rank.BAD_STEP and crashing_rank.RANK == BAD:
                crashing_rank.FAULTS.get(self._fault, crashing_rank.nothing)()
            time.sleep(0.2)
            crashing_rank.say(f"step {step} loss {3 - step * 0.01:.4f} lr 1e-4")


def main(address: str, fault: str) -> int:
    ray.init(address=address, log_to_driver=True)
    nodes = sorted((node["NodeManagerAddress"], node["NodeID"]) for node in ray.nodes())
    trainers = [
        Trainer.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(nodes[rank // 2][1], soft=False)
        ).remote(rank, fault)
        for rank in range(2 * len(nodes))
    ]
    try:
        ray.get([trainer.train.remote() for trainer in trainers])
    except ray.exceptions.RayError:
        traceback.print_exc()
        return 1
    print("Training completed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
