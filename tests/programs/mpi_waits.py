"""mpirun -n 2 python mpi_waits.py KIND, with Open MPI and without mpi4py.

stuck: rank 1 never comes to the second barrier, in which rank 0 polls. receive: both wait for a
message of the other. steps: rank 1 is slow, and rank 0 polls in a barrier at every step.
"""

import ctypes
import sys
import threading
import time

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
WORLD = ctypes.byref(ctypes.c_byte.in_dll(mpi, "ompi_mpi_comm_world"))
BYTE = ctypes.byref(ctypes.c_byte.in_dll(mpi, "ompi_mpi_byte"))


def rank_of_this_process():
    rank = ctypes.c_int()
    mpi.MPI_Comm_rank(WORLD, ctypes.byref(rank))
    return rank.value


def receive(source):
    buffer = ctypes.create_string_buffer(8)
    mpi.MPI_Recv(buffer, 8, BYTE, source, 0, WORLD, None)


def train(pause):
    for step in range(1_000_000):
        time.sleep(pause)
        mpi.MPI_Barrier(WORLD)
    return step


mpi.MPI_Init(None, None)
rank = rank_of_this_process()
mpi.MPI_Barrier(WORLD)
print("ready", flush=True)
match sys.argv[1]:
    case "stuck":
        if rank == 1:
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        mpi.MPI_Barrier(WORLD)
    case "receive":
        receive(1 - rank)
    case "steps":
        train(0.2 if rank == 1 else 0.0)
