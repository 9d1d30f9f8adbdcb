"""python launch.py WORLD PROGRAM ARGUMENT...: one process a rank, as torchrun starts them.

WORLD is a number, or STARTED/WORLD where not all of them are started.
"""

import os
import subprocess
import sys

size, program, *arguments = sys.argv[1:]
started, _, world = size.rpartition("/")
ranks = []
for rank in range(int(started or world)):
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "GROUP_RANK": 0}
    environment = {**os.environ, **{name: str(value) for name, value in names.items()}}
    ranks.append(subprocess.Popen([sys.executable, program, *arguments], env=environment))
for process in ranks:
    process.wait()
