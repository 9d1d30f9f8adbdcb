"""python eats.py CGROUP: of two ranks, rank 1 goes into that control group and uses more and more memory."""

import os
import sys
import time

if os.environ["RANK"] == "1":
    with open(f"{sys.argv[1]}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
    kept = []
    while True:
        kept.append(bytearray(1_000_000))
        time.sleep(0.05)
time.sleep(3600)
