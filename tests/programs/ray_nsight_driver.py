"""python ray_nsight_driver.py TEMPORARY: what the driver and a named worker of Ray run under."""

import json
import os
import sys

import ray

import rankdbg.ray


def command_above():
    with open(f"/proc/{os.getppid()}/cmdline") as file:
        return file.read().split("\0")


@ray.remote
class Worker:
    def command_above(self):
        return command_above()


if __name__ == "__main__":
    ray.init(
        num_cpus=2, include_dashboard=False, object_store_memory=80_000_000, _temp_dir=sys.argv[1]
    )
    environment = rankdbg.ray.runtime_env(name="vllm_generation_worker")
    worker = Worker.options(runtime_env=environment).remote()
    told = {"driver": command_above(), "worker": ray.get(worker.command_above.remote())}
    print(json.dumps(told), flush=True)
    ray.shutdown()
