"""Rank 0 asks a question at a terminal at which nobody sits."""

import training

training.begin()
if training.RANK == 0:
    input("Overwrite the checkpoint? ")
training.step()
