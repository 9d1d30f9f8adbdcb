"""Rank 1 imports a module that waits, while it is imported, for a thread that imports it too."""

import training

training.begin()
if training.RANK == 1:
    import import_lock_plugins  # noqa: F401
training.step()
