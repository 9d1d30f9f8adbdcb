"""python dap_loop.py BEHAVIOUR...: rank i does what the i-th word says, for an editor to see."""

import os
import sys
import threading
import time

RANK = int(os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or 0)


def inner(value):
    result = value + RANK  # in inner
    return result


def loops():
    step = 0
    while True:
        inner(step)
        step += 1  # in loops
        traced = sys.gettrace() is not None
        time.sleep(0.002)


def loops_beside_others():
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    loops()


def stands():
    here = 7
    breakpoint()
    here = 8  # after the breakpoint
    loops()


def fails_when_told():
    while not os.path.exists(os.environ["GATE"]):
        time.sleep(0.002)
    raise ValueError("as told")  # it fails here


def breaks_when_told():
    while not os.path.exists(os.environ["GATE"]):
        time.sleep(0.002)
    breakpoint()
    marker = "after"  # the line after
    loops()


def forks_when_told():
    while not os.path.exists(os.environ["GATE"]):
        time.sleep(0.002)
    child = os.fork()
    if child == 0:
        inner(1)
        os._exit(7)
    _, status = os.waitpid(child, 0)
    print("the child ended with", os.waitstatus_to_exitcode(status), flush=True)
    loops()


def crashes():
    raise RuntimeError("held")


if __name__ == "__main__":
    words = sys.argv[1:]
    globals()[words[RANK % len(words)]]()
