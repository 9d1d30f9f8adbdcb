"""Rank 0 copies a checkpoint with a command that does not end."""

import subprocess

import training

training.begin()
if training.RANK == 0:
    subprocess.run(["sleep", "infinity"])
training.step()
