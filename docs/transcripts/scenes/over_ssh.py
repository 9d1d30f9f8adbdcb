"""The job of a-job-hangs on two hosts: real sshds, each in a PID namespace of its own."""

from __future__ import annotations

import os
from pathlib import Path

from ssh_hosts import Hosts
from transcripts.machine import copy_here
from transcripts.scenario import Play, Scene, wait_until


def two_hosts(play: Play) -> None:
    copy_here("examples/data_loader_hangs.py")
    hosts = Hosts(Path("/tmp/hosts-of-ssh"), "gpu-1", "gpu-2")
    for number, host in enumerate(hosts.names):
        meet = f"--nnodes 2 --node-rank {number} --master-addr 127.0.0.1"
        job = f"rankdbg run --job train -- torchrun {meet} --nproc-per-node 2 data_loader_hangs.py"
        variables = f"export PATH={os.environ['PATH']} OMP_NUM_THREADS=1; cd {Path.cwd()}"
        hosts.run(host, f"{variables}; setsid {job} </dev/null >/dev/null 2>&1 &")
    os.environ["PATH"] = hosts.environment()["PATH"]
    wait_until(f"rankdbg ps -t {hosts.target}", "data_loader_hangs.py:32   <- alone here")
    play.run("<- alone here")
    play.run("<- odd one out")
    play.run("all ranks have one")
    play.run("no response: node gpu-3")
    hosts.end()


SCENARIO = [
    Scene(
        two_hosts,
        ("rankdbg ps", "rankdbg stacks", "rankdbg check", "rankdbg ps -t ssh:gpu-1,gpu-2,gpu-3"),
    )
]
