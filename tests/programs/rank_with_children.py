"""python rank_with_children.py: a rank with a forked child and one that executes this program again;
both inherit its number. With the word `again`, a first rank that starts the others as Lightning does."""

import os
import subprocess
import sys
import time


def waits():
    while os.getppid() != 1:
        time.sleep(0.05)


if sys.argv[1:] == ["again"] and "LOCAL_RANK" not in os.environ:
    for number in (1, 2):
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "LOCAL_RANK": str(number)})
elif sys.argv[1:] == ["children"]:
    subprocess.Popen([sys.executable, sys.argv[0], "child"])
    os.fork()
waits()
