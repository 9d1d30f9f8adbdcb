"""python ray_nsight.py TEMPORARY PYTHON: Ray actors with and without nsys.

It goes on until its input ends, as a training does after the steps that were captured.
"""

import contextlib
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
    given = {"py_executable": python}
    environments = {
        "plugin": rankdbg.ray.runtime_env(given, name="vllm by plugin", plugin=True),
        "other": rankdbg.ray.runtime_env(name="other_worker"),
        "named": rankdbg.ray.runtime_env(given, name="vllm_generation_worker"),
    }
    # Behind the range, which is 2:3, and in the middle of it.
    steps = {"plugin": 2, "other": 3, "named": 3}
    workers, told = {}, {}
    for name, environment in environments.items():
        workers[name] = Worker.options(runtime_env=environment).remote()
        # Before the next is made: two nsys that start at once fail, and Ray's takes no turn.
        told[name] = ray.get(workers[name].train.remote(steps[name]))
    print(json.dumps(told), flush=True)
    sys.stdin.read()
    ray.kill(workers["plugin"])  # Ray then kills its process group too
    with contextlib.suppress(ray.exceptions.RayActorError):
        ray.get(workers["plugin"].train.remote(1))
    ray.shutdown()
