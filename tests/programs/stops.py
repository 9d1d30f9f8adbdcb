"""python stops.py BEHAVIOUR...: rank i stops in the way that the i-th word says."""

import asyncio
import multiprocessing
import os
import pdb
import signal
import sys
import threading

import rankdbg

RANK = int(os.environ.get("RANK", "0"))


def steps(header=None):
    x = RANK % 2
    breakpoint(header=header) if header else breakpoint()
    y = x + 1
    z = y * 10
    return z


def twice():
    for n in range(2):
        breakpoint()
    done()


def many():
    for n in range(10_000):
        breakpoint()


def one_after_the_other():
    """A thread stops at once, the main thread at a signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    threading.Thread(target=worker, args=("north",), name="north", daemon=True).start()
    signal.sigwait([signal.SIGUSR1])
    breakpoint()
    done()


def replaced_by_another_program():
    """While a thread of it is stopped."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    threading.Thread(target=worker, args=("north",), name="north", daemon=True).start()
    signal.sigwait([signal.SIGUSR1])
    os.execvp("sleep", ["sleep", "600"])


def done():
    threading.Event().wait()


def with_header():
    steps("look here")
    done()


def by_pdb():
    x = "set_trace"
    pdb.set_trace()
    done()


def by_rankdbg():
    rankdbg.breakpoint(when=False)
    rankdbg.breakpoint(ranks="0", header="rank 0 alone")
    done()


def in_threads():
    for name in ("north", "south"):
        threading.Thread(target=worker, args=(name,), name=name, daemon=True).start()
    done()


def worker(name):
    breakpoint()
    done()


def in_coroutine():
    asyncio.run(endpoint())
    done()


async def endpoint():
    value = await nested()
    return value


async def nested():
    x = 7
    breakpoint()
    return x


def in_children():
    children = [
        multiprocessing.get_context(way).Process(target=child, args=(way,))
        for way in ("fork", "spawn")
    ]
    for process in children:
        process.start()
    for process in children:
        process.join()
    done()


def child(way):
    breakpoint()
    done()


def catches():
    try:
        divide(1, 0)
    except ZeroDivisionError:
        rankdbg.post_mortem()
    done()


def divide(numerator, denominator):
    return numerator / denominator


def in_scope():
    with rankdbg.scope("step"):
        breakpoint()
        inside = 1
    after_scope = 2
    done()


def in_del():
    class Dying:
        def __del__(self):
            breakpoint()

    Dying()
    done()


def in_signal_handler():
    signal.signal(signal.SIGUSR1, handler)
    os.kill(os.getpid(), signal.SIGUSR1)
    done()


def handler(number, frame):
    breakpoint()


def while_importing():
    sys.path.insert(0, os.environ["SCRATCH"])
    with open(os.path.join(os.environ["SCRATCH"], "stops_inside.py"), "w") as file:
        file.write("breakpoint()\nvalue = 5\n")
    import stops_inside  # noqa: F401

    done()


def without_stdin():
    os.close(0)
    steps()
    done()


if __name__ == "__main__":
    words = sys.argv[1:]
    globals()[words[RANK % len(words)]]()
