"""python breaks.py BEHAVIOUR...: rank i runs as the i-th word says, without a breakpoint."""

import os
import sys
import threading
import time

RANK = int(os.environ.get("RANK", "0"))
SCRATCH = os.environ.get("SCRATCH", ".")


def loops():
    step = 0
    while True:
        step += 1
        tracer = (sys.gettrace(), time.sleep(0.001))[0]
        twice = double(step)  # in loops


def double(x):
    y = x * 2  # in double
    return y


def tight():
    n = 0
    # fmt: off
    while True: n += 1  # noqa: E701
    # fmt: on


def generates():
    source = numbers()
    while True:
        next(source)


def numbers():
    number = 0
    while True:
        number += 1  # in numbers
        yield number


def imports_later():
    sys.path.insert(0, SCRATCH)
    while not os.path.exists(os.path.join(SCRATCH, "now")):
        time.sleep(0.001)
    import later

    while True:
        later.function(1)
        time.sleep(0.001)


def reads():
    """In C, until somebody writes to the pipe."""
    with open(os.path.join(SCRATCH, "pipe")) as pipe:
        pipe.read()
    loops()


def in_thread():
    threading.Thread(target=loops, name="worker", daemon=True).start()
    loops_elsewhere()


def loops_elsewhere():
    while True:
        time.sleep(0.001)


def starts_threads():
    while True:
        thread = threading.Thread(target=double, args=(1,), name="later")
        thread.start()
        thread.join()
        time.sleep(0.001)


def measures():
    """A loop of calls; how many a second of processor time, for each line on stdin."""
    for _ in sys.stdin:
        begun = time.thread_time()
        for number in range(300_000):
            double(number)
        print(300_000 / (time.thread_time() - begun), flush=True)


def never_called():
    never = 1  # in never_called

    # no code here
    return never


if __name__ == "__main__":
    words = sys.argv[1:]
    globals()[words[RANK % len(words)]]()
