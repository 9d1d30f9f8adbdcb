"""Rank 2 waits for another process to build an extension; that one is gone, its lock is not."""

import tempfile

import training
from torch.utils.file_baton import FileBaton

training.begin()
if training.RANK == 2:
    with tempfile.NamedTemporaryFile() as lock:
        FileBaton(lock.name).wait()
training.step()
