"""Rank 2 has come to a breakpoint()."""

import training

training.begin()
if training.RANK == 2:
    breakpoint()
training.step()
