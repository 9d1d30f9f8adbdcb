"""Stands in a small stack of functions, with all kinds of variables; a line on stdin ends it.

`calls` counts what it does meanwhile: an evaluation must not hold it up.
"""

import sys
import threading
import time

LIMIT = 7


class Slow:
    def __repr__(self):
        time.sleep(60)
        return "slow"


class Quits:
    def __repr__(self):
        raise SystemExit("from repr")


class Trainer:
    def outer(self):
        rate, name = 0.1, "outer"
        return self.inner(rate)

    def inner(self, rate):
        name, weights, slow, quits = "inner", list(range(10)), Slow(), Quits()
        threading.Thread(target=pump, name="pump-1", daemon=True).start()
        threading.Thread(target=count, daemon=True).start()
        print("ready", flush=True)
        sys.stdin.readline()
        print(name, flush=True)


def pump():
    name = "pump"
    threading.Event().wait()


calls = 0


def count():
    global calls
    while True:
        calls += 1
        time.sleep(0.001)


Trainer().outer()
