"""python gets_no_processor.py KIND FOLDER: rank 0 waits in a barrier, rank 1 for what something owes it: a
thread, a child, a process of rank 0's; or rank 1 computes itself. What is owed comes 50 times a second, or
with `hangs-` before KIND never.

What owes it prints a line with its number, as the kernel has it; so does rank 0. All end with their parents.
"""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from run_waiting import end_with_parent

RANK = int(os.environ["RANK"])
HOW, _, KIND = sys.argv[1].rpartition("-")
FIFO = os.path.join(sys.argv[2], "owed")
PAUSE = 1000 if HOW == "hangs" else 0.02
WRITES = f"""
import os, sys, time
print("ready", os.getpid(), flush=True)
while os.write(int(sys.argv[1]), b"line\\n"):
    time.sleep({PAUSE})
"""


def barrier():
    """By its name a collective."""
    threading.Event().wait()


def start_writer(pipe):
    command = [sys.executable, "-S", "-c", WRITES, str(pipe)]
    subprocess.Popen(command, pass_fds=[pipe], preexec_fn=end_with_parent)
    os.close(pipe)


def read_all(pipe):
    while os.read(pipe, 100):
        pass


def thread():
    def begin():
        print("ready", threading.get_native_id(), flush=True)

    with ThreadPoolExecutor(1, initializer=begin) as pool:
        while True:
            pool.submit(time.sleep, PAUSE).result()


def child():
    ours, theirs = os.pipe()
    start_writer(theirs)
    read_all(ours)


def stranger():
    read_all(os.open(FIFO, os.O_RDONLY))


def rank():
    print("ready", os.getpid(), flush=True)
    lock = threading.Lock()
    while HOW != "hangs" or lock.acquire():  # the second time it waits for ever
        time.sleep(0.005)


if RANK == 1:
    globals()[KIND]()
elif KIND == "stranger":
    start_writer(os.open(FIFO, os.O_RDWR))
print("ready", os.getpid(), flush=True)
barrier()
