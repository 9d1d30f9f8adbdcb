"""python logs_job.py SCRATCH: a rank that logs as torchtitan does, then whatever it is told.

It logs each line that comes into SCRATCH/RANK.txt (%T is the time now), and obeys those that
begin with an exclamation mark: !raise, !exit N, !kill.
"""

import os
import signal
import sys
import time

RANK = os.environ.get("RANK") or os.environ["OMPI_COMM_WORLD_RANK"]


def now():
    return time.strftime("%Y-%m-%d %H:%M:%S")


def say(text):
    sys.stderr.write(f"[titan] {now()},000 - root - INFO - {text}\n")
    sys.stderr.flush()


def obey(word, *more):
    if word == "!raise":
        raise ValueError(f"shard {RANK} is damaged")
    if word == "!exit":
        os._exit(int(more[0]))
    if word == "!kill":
        os.kill(os.getpid(), signal.SIGKILL)


def main(scratch):
    say("Building 1-D device mesh with ['dp'], [2]")
    read = 0
    while os.path.isdir(scratch):
        lines = []
        if os.path.exists(f"{scratch}/{RANK}.txt"):
            with open(f"{scratch}/{RANK}.txt") as file:
                lines = file.read().splitlines()
        for line in lines[read:]:
            if line.startswith("!"):
                obey(*line.split())
            sys.stderr.write(line.replace("%T", now()) + "\n")
            sys.stderr.flush()
        read = max(read, len(lines))
        time.sleep(0.02)


main(sys.argv[1])
