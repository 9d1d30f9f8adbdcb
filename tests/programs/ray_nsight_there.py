"""python ray_nsight_there.py ADDRESS NODE: an actor under nsys on another node, until the end."""

import os
import sys

import ray

import rankdbg.ray


@ray.remote
class Worker:
    def pid(self):
        return os.getpid()


if __name__ == "__main__":
    address, node = sys.argv[1:]
    ray.init(address=address)
    passed = ("PATH", "LD_PRELOAD")
    given = {name: value for name, value in os.environ.items() if name in passed or "NSYS" in name}
    environment = rankdbg.ray.runtime_env({"env_vars": given}, name="vllm_worker")
    worker = Worker.options(runtime_env=environment, resources={f"node:{node}": 0.01}).remote()
    print(ray.get(worker.pid.remote()), flush=True)
