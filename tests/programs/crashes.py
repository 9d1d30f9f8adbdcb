"""python crashes.py HOW: faulthandler writes to stderr what the threads were doing."""

import ctypes
import faulthandler
import os
import signal
import sys
import threading


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
    faulthandler.dump_traceback_later(0.05)
    threading.Event().wait(0.5)
    faulthandler.dump_traceback_later(0.05)
    threading.Event().wait(0.5)


def waits():
    print(flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    faulthandler.enable()
    threading.Thread(target=pump, daemon=True, name="pump").start()
    globals()[sys.argv[1]]()
