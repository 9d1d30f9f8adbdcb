"""python fork_ranks.py WORLD PROGRAM ARGUMENT...: as launch.py, but torch is loaded once, and its
ranks are forks of that, as torch.multiprocessing makes them.

Only for jobs with an agent: from outside, the variables of a fork are those of its parent.
"""

import os
import runpy
import sys

import torch.distributed  # noqa: F401

size, *sys.argv = sys.argv[1:]
started, _, world = size.rpartition("/")
for rank in range(int(started or world)):
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "GROUP_RANK": 0}
    names["LOCAL_WORLD_SIZE"] = world
    os.environ.update({name: str(value) for name, value in names.items()})
    if not os.fork():
        sys.path[0] = os.path.dirname(sys.argv[0])
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit()
for name in names:
    del os.environ[name]  # this process is no rank
statuses = [os.wait()[1] for _ in range(int(started or world))]
sys.exit(any(statuses))
