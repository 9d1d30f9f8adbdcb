"""Jobs under a real Slurm of four nodes on one machine."""

from __future__ import annotations

import os

from slurm_cluster import SlurmCluster, running_cluster
from transcripts.machine import copy_here, rename
from transcripts.scenario import Play, Scene

PROGRAMS = ("slurm_torch.py", "launch.py", "behave.py")


def jobs_of_one_user(play: Play) -> None:
    rename("login")
    copy_here(*(f"tests/programs/{name}" for name in PROGRAMS))
    with running_cluster(FirstJobId=1) as slurm:
        for name in ("SLURM_CONF", "RANKDBG_DIR", "TMPDIR"):
            os.environ[name] = slurm.environment[name]
        training = _submit(slurm, "training", "slurm_torch.py", "/tmp/meeting", nodes=4, each=2)
        slurm.wait_for_ranks(training, 8, "train_step")
        play.run("0-7    running  train_step")
        serving = _submit(slurm, "serving", "behave.py", "waits", "waits", nodes=2, each=1)
        slurm.wait_for_ranks(serving, 2, "waits")
        play.run("2 running Slurm jobs")
        play.run("job slurm-2")
        play.through = ["srun", f"--jobid={serving}", "--overlap", "-N1", "-n1", "--mpi=none"]
        play.run("inside")
        play.through = []
        theirs = ("-N1", "--uid=nobody", "--chdir=/", "--job-name=theirs")
        slurm.submit("sleep", "600", options=theirs)
        play.run("belongs to nobody")
        slurm.kill_node("node-2")
        slurm.call("scontrol", "update", "nodename=node-2", "state=noresp")
        play.run("no response: node node-2")


def _submit(slurm: SlurmCluster, name: str, *words: str, nodes: int, each: int) -> str:
    options = (f"-N{nodes}", f"--ntasks-per-node={each}", f"--job-name={name}")
    return slurm.submit("rankdbg", "run", "--", "python", *words, options=options)


SCENARIO = [
    Scene(
        jobs_of_one_user,
        (
            "rankdbg ps -t slurm:1",
            "rankdbg ps -t slurm:",
            "rankdbg ps -t slurm:1 -t slurm:2",
            "rankdbg ps",
            "rankdbg ps -t slurm:3",
            "rankdbg ps -t slurm:1",
        ),
    )
]
