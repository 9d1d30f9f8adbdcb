"""python breaks.py BEHAVIOUR...: rank i runs as the i-th word says, without a breakpoint."""

import linecache
import marshal
import os
import sys
import threading
import time
import types

RANK = int(os.environ.get("RANK", "0"))
SCRATCH = os.environ.get("SCRATCH", ".")

CELL = """\
def cell(x):
    y = x + 1
    return [inner(y) for inner in [lambda z: z + y]]
"""


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


def awaits():
    import asyncio

    asyncio.run(coroutine(asyncio.sleep))


async def coroutine(sleep):
    while True:
        await sleep(0.001)
        value = double(1)  # in coroutine


def imports_later():
    sys.path.insert(0, SCRATCH)
    wait_for_now()
    import later

    while True:
        later.function(1)
        time.sleep(0.001)


def reads():
    """In C, until somebody writes to the pipe."""
    with open(os.path.join(SCRATCH, "pipe")) as pipe:
        pipe.read()
    loops()


# --- threads and processes ------------------------------------------------------------------


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


def forks():
    wait_for_now()
    if os.fork() == 0:
        loops()
    loops_elsewhere()


def forks_in_thread():
    threading.Thread(target=forks, daemon=True).start()
    loops_elsewhere()


def spawns():
    import multiprocessing

    multiprocessing.get_context("spawn").Process(target=loops).start()
    loops_elsewhere()


# --- code that is in no file here -----------------------------------------------------------


def has_a_cell():
    """As a notebook has it: defined, and called later."""
    calls(made("<ipython-input-7-0123>")["cell"])


def has_a_kernels_cell():
    calls(made("/tmp/ipykernel_123/456.py")["cell"])


def has_a_pickled_function():
    """By value, from a machine where its file is: this is what cloudpickle does."""
    code = marshal.loads(marshal.dumps(made("/elsewhere/train.py")["cell"].__code__))
    calls(types.FunctionType(code, globals()))


def executes_a_cell_later():
    linecache.cache["<cell 8>"] = (len(CELL), None, CELL.splitlines(True), "<cell 8>")
    wait_for_now()
    calls(made("<cell 8>")["cell"])


def made(file):
    namespace = {}
    exec(compile(CELL, file, "exec"), namespace)
    return namespace


def calls(function):
    wait_for_now()
    while True:
        function(1)
        time.sleep(0.001)


def wait_for_now():
    while not os.path.exists(os.path.join(SCRATCH, "now")):
        time.sleep(0.001)


# --- what is measured -----------------------------------------------------------------------


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
