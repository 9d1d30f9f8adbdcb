"""Starts one process for each rank, with the environment that torchrun would give it.

python launch.py WORLD RENDEZVOUS-DIRECTORY
"""

import os
import signal
import subprocess
import sys

world, meeting = int(sys.argv[1]), sys.argv[2]
here = os.path.dirname(os.path.abspath(__file__))
ranks = []


def stop(*_):
    """Ends the wait at the end of this file."""
    for process in ranks:
        process.kill()


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
signal.signal(signal.SIGALRM, stop)
signal.alarm(3600)  # a demo that was forgotten ends by itself

for rank in range(world):
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    environment = {**os.environ, **{name: str(value) for name, value in names.items()}}
    command = [sys.executable, os.path.join(here, "train.py"), meeting]
    ranks.append(subprocess.Popen(command, env=environment))
for process in ranks:
    process.wait()
