"""python idle_threads.py CPU KIND: on this processor alone, 40 threads that wake up ten times a second,
or (`computes`) these and one that computes. The main thread waits until its stdin is closed."""

import os
import sys
import threading
import time

os.sched_setaffinity(0, {int(sys.argv[1])})


def look_again():
    while True:
        time.sleep(0.1)


def compute():
    while True:
        sum(range(1000))


kinds = [look_again] * 40 + [compute] * (sys.argv[2] == "computes")
for kind in kinds:
    threading.Thread(target=kind, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
