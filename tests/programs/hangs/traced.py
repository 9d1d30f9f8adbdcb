"""Another debugger has attached to rank 1, and somebody went to lunch."""

import ctypes
import os
import subprocess
import sys

import training

DEBUGGER = """
import ctypes, os, signal, sys
for thread in os.listdir(f"/proc/{sys.argv[1]}/task"):
    ctypes.CDLL(None).ptrace(16, int(thread), 0, 0)  # PTRACE_ATTACH
signal.pause()
"""

training.begin()
if training.RANK == 1:
    ctypes.CDLL(None).prctl(0x59616D61, -1)  # PR_SET_PTRACER: any process may trace this one
    subprocess.run([sys.executable, "-c", DEBUGGER, str(os.getpid())])
training.step()
