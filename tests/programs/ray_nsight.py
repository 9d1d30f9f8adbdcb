"""python ray_nsight.py TEMPORARY PYTHON: Ray actors with and without nsys.

It goes on until its input ends, as a training does after the steps that were captured.
"""

import json
import os
import sys

import ray

import rankdbg.ray


@ray.remote
class Worker:
    def train(self, steps):
        import rankdbg

        for step in range(1, steps + 1):
            rankdbg.progress(step)
        with open(f"/proc/{os.getppid()}/cmdline") as file:
            above = file.read().split("\0")
        return {"pid": os.getpid(), "mine": os.environ.get("MY_PYTHON"), "above": above}


if __name__ == "__main__":
    temporary, python = sys.argv[1:]
    ray.init(
        num_cpus=4, include_dashboard=False, object_store_memory=80_000_000, _temp_dir=temporary
    )
    # As a user of Ray's own plugin writes it, with an interpreter of the worker's own.
    options = {"t": "cuda,nvtx", "o": "'by plugin_%p'", "stop-on-exit": "true"}
    environments = {
        "plugin": {"nsight": options, "py_executable": python},
        "other": rankdbg.ray.runtime_env(name="other_worker"),
        "named": rankdbg.ray.runtime_env({"py_executable": python}, name="vllm_generation_worker"),
    }
    workers = {
        name: Worker.options(runtime_env=environment).remote()
        for name, environment in environments.items()
    }
    told = {name: ray.get(worker.train.remote(3)) for name, worker in workers.items()}
    print(json.dumps(told), flush=True)
    sys.stdin.read()
    ray.shutdown()
