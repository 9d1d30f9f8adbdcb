"""A driver of Ray with four actors on two nodes that print the same, of which Ray shows one."""

from __future__ import annotations

import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

WINDOW = 3.0  # seconds in which Ray takes equal lines for one: RAY_DEDUP_LOGS_AGG_WINDOW_S


@ray.remote(num_cpus=0)
class Talker:
    def has_started(self):
        return True

    def say(self, text):
        print(text, flush=True)

    def wait(self):
        time.sleep(600)


def main(address):
    ray.init(address=address, namespace="talks", logging_level="ERROR")
    nodes = sorted((node["NodeManagerAddress"], node["NodeID"]) for node in ray.nodes())
    talkers = [
        Talker.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(nodes[rank // 2][1], soft=False)
        ).remote()
        for rank in range(4)
    ]
    ray.get([talker.has_started.remote() for talker in talkers])
    for text in ("loading the model", "ready"):
        ray.get([talker.say.remote(text) for talker in talkers])
        time.sleep(WINDOW + 1)  # how often it was said is told when the next line comes
    ray.get([talker.wait.remote() for talker in talkers])


main(*sys.argv[1:])
