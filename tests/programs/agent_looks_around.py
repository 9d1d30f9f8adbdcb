"""Prints all that a program can see of its interpreter and that an agent might change."""

import atexit
import os
import signal
import socket
import sys
import threading
import time
import warnings

# Whoever looks at all processes just now has a connection, with the lowest number for a moment.
deadline = time.monotonic() + 5
while True:
    opened = [os.open("/dev/null", os.O_RDONLY), socket.socket().detach()]
    if opened == [3, 4] or time.monotonic() > deadline:
        break
    for number in opened:
        os.close(number)
    time.sleep(0.01)
print("descriptors", opened)
print("signals", [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())])
print("blocked", signal.pthread_sigmask(signal.SIG_BLOCK, ()))
print("threads", [t.name for t in threading.enumerate()], threading.active_count())
# One finder waits for the program to import pdb.
finders = [finder for finder in sys.meta_path if "rankdbg" not in type(finder).__module__]
print("path", sys.path, sys.argv, sys.flags, len(finders), len(sys.path_hooks))
print("environment", {k: v for k, v in os.environ.items() if not k.startswith("RANKDBG")})
print("hooks", sys.gettrace(), sys.getprofile(), sys.excepthook, threading.excepthook)
print("warnings", warnings.filters)
print("limits", sys.getrecursionlimit(), sys.getswitchinterval(), socket.getdefaulttimeout())
print(
    "umask",
    oct(os.umask(0o22)),
    os.getcwd(),
    os.getpgrp() == os.getpgid(0),
    atexit._ncallbacks() < 3,
)
