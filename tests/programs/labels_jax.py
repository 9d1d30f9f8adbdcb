"""python labels_jax.py COUNT PORT: starts the processes of a JAX job, the last first; they wait.
Each has two devices on the processor, in a mesh of COUNT × 2."""

import subprocess
import sys
import threading

import jax
import numpy


def waits(mesh):
    threading.Event().wait()


def rank(index, count, port):
    jax.config.update("jax_num_cpu_devices", 2)
    jax.distributed.initialize(f"127.0.0.1:{port}", count, index)
    devices = numpy.array(jax.devices()).reshape(count, 2)
    waits(jax.sharding.Mesh(devices, ("data", "model")))


count, port, *index = map(int, sys.argv[1:])
if index:
    rank(*index, count, port)
else:
    words = [sys.executable, __file__, str(count), str(port)]
    started = [subprocess.Popen([*words, str(n)]) for n in reversed(range(count))]
    for process in started:
        process.wait()
