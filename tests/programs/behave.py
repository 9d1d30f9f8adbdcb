"""python behave.py BEHAVIOUR...: rank i behaves as the i-th word says."""

import _thread
import ctypes
import os
import subprocess
import sys
import threading
import time

RANK = int(os.environ.get("RANK", "0"))
name = "a module's variable"


def waits():
    loss = float("nan") if RANK == 1 else 2.5
    text, several = "x" * 100_000, list(range(100_000))
    secret, rank, same = object(), RANK, {"lr": 0.1}
    threading.Event().wait()


def waits_elsewhere():
    loss = 9.75
    threading.Event().wait()


def with_threads():
    for place in ("north", "south"):
        threading.Thread(target=pump, args=(place,), name=f"pump-{place}", daemon=True).start()
    threading.Event().wait()


def pump(place):
    threading.Event().wait()


def loops():
    count = 0
    while True:
        count = one(count)
        count = other(count)


def one(count):
    for number in range(1000):
        count += number
    return count


def other(count):
    for number in range(1000):
        count -= number
    return count


def holds_gil():
    ctypes.PyDLL(None).sleep(600)


def thread_holds_gil():
    main = threading.get_ident()
    threading.Thread(target=holds_gil_later, args=(main,), name="holder", daemon=True).start()
    while True:
        threading.Event().wait(0.5)


def holds_gil_later(main):
    """Once that thread waits: it then wants the GIL in the same place in every rank. So does a
    thread that has not begun yet."""
    from resting import wait_until_it_waits  # not where it stands alone, with -I

    wait_until_it_waits(main)
    _thread.start_new_thread(time.sleep, (0,))
    holds_gil()


def recurses(depth=5000):
    sys.setrecursionlimit(10_000)
    if depth:
        return recurses(depth - 1)
    threading.Event().wait()


def in_state_d():
    """vfork() suspends its caller in state D until the child ends; this one does not."""
    here = os.environ["BEHAVE_SCRATCH"]
    source, library = os.path.join(here, f"{RANK}.c"), os.path.join(here, f"{RANK}.so")
    with open(source, "w") as file:
        file.write("#include <unistd.h>\nvoid hang(void) { if (vfork() == 0) for (;;) pause(); }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    ctypes.PyDLL(library).hang()


def exits_slowly():
    """C's own exit handlers run when Python has wound up: this one waits for ever."""
    global at_exit
    libc = ctypes.CDLL(None)
    at_exit = ctypes.cast(libc.pause, ctypes.c_void_p)
    libc.on_exit(at_exit, None) if hasattr(libc, "on_exit") else libc.atexit(at_exit)


def ends():
    sys.exit(3)


if __name__ == "__main__":
    words = sys.argv[1:]
    globals()[words[RANK % len(words)]]()
