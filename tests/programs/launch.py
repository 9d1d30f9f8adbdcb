"""python launch.py WORLD PROGRAM ARGUMENT...: one process a rank, as torchrun starts them."""

import os
import subprocess
import sys

world, program, *arguments = sys.argv[1:]
ranks = []
for rank in range(int(world)):
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "GROUP_RANK": 0}
    environment = {**os.environ, **{name: str(value) for name, value in names.items()}}
    ranks.append(subprocess.Popen([sys.executable, program, *arguments], env=environment))
for process in ranks:
    process.wait()
