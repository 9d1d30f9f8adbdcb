"""Four trainers and two rollout workers on the nodes of a Ray cluster: python ppo.py [WHAT]."""

import sys
import time

import ray


@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
class Trainer:
    def step(self, batch, what):
        loss = sum(batch) / len(batch)
        if what == "stops":
            breakpoint()
        return loss


@ray.remote(num_cpus=0, scheduling_strategy="SPREAD")
class Rollout:
    def generate(self, seed):
        time.sleep(3600)  # an environment that does not answer


def batch_of(rank, what):
    return [] if (rank, what) == (2, "fails") else [rank % 2, rank % 2 + 1]


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else "waits"
    ray.init(logging_level="ERROR")
    trainers = [Trainer.options(name=f"trainer-{rank}").remote() for rank in range(4)]
    rollouts = [Rollout.options(name=f"rollout-{number}").remote() for number in range(2)]
    steps = [each.step.remote(batch_of(rank, what), what) for rank, each in enumerate(trainers)]
    losses = ray.get(steps)
    if what != "waits":
        breakpoint()
    samples = ray.get(rollouts[0].generate.remote(seed=1))
