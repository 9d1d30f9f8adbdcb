"""python run_waiting.py: a rank that does nothing. Ends with its parent, whatever ends that."""

import ctypes
import os
import signal
import threading


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() == 1:
        os._exit(1)


def waits():
    end_with_parent()
    threading.Event().wait(60)


end_with_parent()
if __name__ == "__main__":
    waits()
