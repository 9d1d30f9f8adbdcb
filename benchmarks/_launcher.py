"""python _launcher.py WORLD PROGRAM ARGUMENT...: ranks that stop, few starting at a time.

A thousand Pythons that start at once on two cores take minutes, and time out. Every rank says
on stderr that it has stopped: the next one starts then.
"""

from __future__ import annotations

import os
import subprocess
import sys

STARTING_AT_ONCE = 8


def main(world: int, *command: str) -> None:
    said, say = os.pipe()
    ranks = []
    with open(said) as stopped:
        for rank in range(world):
            if rank >= STARTING_AT_ONCE:
                stopped.readline()
            names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "GROUP_RANK": 0}
            environment = {**os.environ, **{name: str(value) for name, value in names.items()}}
            words = [sys.executable, *command]
            ranks.append(subprocess.Popen(words, env=environment, stderr=say))
        for process in ranks:
            process.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
