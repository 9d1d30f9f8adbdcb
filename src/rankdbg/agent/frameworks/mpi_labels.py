"""Labels from mpi4py: the rank in MPI.COMM_WORLD.

Variables of the environment say it too, but not under each launcher (srun --mpi=pmix), and not
if the program was started through something that clears them.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def read() -> dict[str, Any]:
    mpi: Any = sys.modules.get("mpi4py.MPI")
    if mpi is None:
        return {}
    # MPI allows these three calls in any thread; all others only where threads are allowed.
    if not mpi.Is_initialized() or mpi.Is_finalized() or mpi.Query_thread() < mpi.THREAD_MULTIPLE:
        return {}
    world = mpi.COMM_WORLD
    if world.Get_size() < 2:  # a program that mpirun has not started
        return {}
    return {"rank": world.Get_rank(), "world": world.Get_size(), "source": "mpi"}
