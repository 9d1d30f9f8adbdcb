"""python ray_numbers.py ADDRESS FILE: a driver with three actors without numbers of their own. The
first, alone on the node that the driver is not on, dies when the file is there, and Ray does not
start it again."""

import os
import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0)
class Worker:
    def pid(self):
        return os.getpid()

    def die(self):
        os._exit(1)


ray.init(address=sys.argv[1], namespace="numbers", logging_level="ERROR")
here = ray.get_runtime_context().get_node_id()
(there,) = (n["NodeID"] for n in ray.nodes() if n["Alive"] and n["NodeID"] != here)
workers = []
for node in (there, here, here):
    pinned = NodeAffinitySchedulingStrategy(node, soft=False)
    workers.append(Worker.options(scheduling_strategy=pinned).remote())
    ray.get(workers[-1].pid.remote())  # they start one after the other
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
workers[0].die.remote()
while True:
    time.sleep(0.1)
