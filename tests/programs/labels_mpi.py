"""A rank of MPI whose environment does not say so, as behind a launcher that clears it; it waits."""

import os
import threading

for name in list(os.environ):
    if name.startswith(("OMPI_COMM_WORLD_", "PMI_")):
        del os.environ[name]

from mpi4py import MPI  # noqa: E402


def waits(rank):
    threading.Event().wait()


waits(MPI.COMM_WORLD.Get_rank())
