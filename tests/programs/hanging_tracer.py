"""python hanging_tracer.py PID: a debugger that attaches, as pystack does, and then hangs.

It takes no SIGTERM, so that only kill -9 ends it; killed so, the kernel delivers the SIGSTOP
with which it attached.
"""

import ctypes
import errno
import os
import signal
import sys

PTRACE_ATTACH = 16

signal.signal(signal.SIGTERM, signal.SIG_IGN)
pid = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
for thread in map(int, os.listdir(f"/proc/{pid}/task")):
    if libc.ptrace(PTRACE_ATTACH, thread, None, None) != 0:
        error = ctypes.get_errno()
        if thread == pid or error != errno.ESRCH:  # a thread may have ended meanwhile
            sys.exit(os.strerror(error))
while True:
    signal.pause()
