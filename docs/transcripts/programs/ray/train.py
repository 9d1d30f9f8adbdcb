"""Three trainers on the nodes of a Ray cluster; a shard of one of them is damaged."""

import time
import traceback

import ray


@ray.remote(num_cpus=0, scheduling_strategy="SPREAD")
class Trainer:
    def step(self, rank):
        if rank == 1:
            raise ValueError("shard 1 is damaged")
        time.sleep(3600)


ray.init(logging_level="ERROR")
trainers = [Trainer.options(name=f"trainer-{rank}").remote() for rank in range(3)]
steps = [trainer.step.remote(rank) for rank, trainer in enumerate(trainers)]
while True:
    try:
        ray.get(steps)
    except ray.exceptions.RayTaskError:
        traceback.print_exc()
        time.sleep(3600)
