"""Rank 2 halves a step size until it is below a bound, which nan never is."""

import training


def search(size):
    while not size < 1e-6:
        size /= 2
    return size


training.begin()
search(float("nan") if training.RANK == 2 else 1.0)
training.step()
