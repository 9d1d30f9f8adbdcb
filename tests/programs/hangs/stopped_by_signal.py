"""Rank 0 is stopped, as by Ctrl-Z or `kill -STOP`."""

import os
import signal

import training

training.begin()
if training.RANK == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
training.step()
