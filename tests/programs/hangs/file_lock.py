"""Rank 1 wants a lock on a file, which a process left over from an earlier run still holds."""

import fcntl
import subprocess
import tempfile

import training

training.begin()
if training.RANK == 1:
    with tempfile.NamedTemporaryFile() as cache:
        holds = ["flock", cache.name, "sh", "-c", "echo locked; exec sleep infinity"]
        subprocess.Popen(holds, stdout=subprocess.PIPE).stdout.readline()
        fcntl.flock(cache, fcntl.LOCK_EX)
training.step()
