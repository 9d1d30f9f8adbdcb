"""python crashes.py HOW: faulthandler writes to stderr what the threads were doing."""

import ctypes
import faulthandler
import os
import signal
import sys
import threading

from resting import wait_until_it_waits


def pump():
    threading.Event().wait()


def segfaults():
    ctypes.string_at(0)


def aborts():
    os.abort()


def thread_segfaults():
    threading.Thread(target=segfaults, name="worker").start()
    threading.Event().wait()


def is_asked_twice():
    """Not a crash: two dumps of a process that stands still."""
    faulthandler.register(signal.SIGUSR1)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGUSR1)


def is_late():
    """A timer's dump, then another from elsewhere."""
    written = os.fstat(2).st_size
    faulthandler.dump_traceback_later(0.05)
    while os.fstat(2).st_size == written:
        threading.Event().wait(0.2)
    faulthandler.cancel_dump_traceback_later()  # waits until it is written whole
    written = os.fstat(2).st_size
    faulthandler.dump_traceback_later(0.05)
    while os.fstat(2).st_size == written:
        threading.Event().wait(0.2)


def waits():
    print(flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    faulthandler.enable()
    idle = threading.Thread(target=pump, daemon=True, name="pump")
    idle.start()
    wait_until_it_waits(idle.ident)
    globals()[sys.argv[1]]()
