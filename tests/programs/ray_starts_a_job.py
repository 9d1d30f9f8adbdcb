"""python ray_starts_a_job.py COMMAND...: a Ray driver with an actor that starts a command."""

import os
import subprocess
import sys

import ray


@ray.remote(num_cpus=0)
class Starter:
    def start(self, command):
        subprocess.run(command, check=False)


ray.init(num_cpus=1, include_dashboard=False, configure_logging=False, _temp_dir=sys.argv[1])
ray.get(Starter.remote().start.remote(sys.argv[2:]))
os._exit(0)
