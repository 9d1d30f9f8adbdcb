"""A driver with four trainers and two rollout workers, on a real Ray cluster of two nodes."""

from __future__ import annotations

import os

from ray_cluster import OTHER, RayCluster
from transcripts.machine import HOME, copy_here, end, start
from transcripts.scenario import NotRun, Play, Scene, wait_until

PPO = "docs/transcripts/programs/ray/ppo.py"


def one_cluster(play: Play) -> None:
    copy_here(PPO)
    with RayCluster() as cluster:
        os.environ.update(RAY_ADDRESS=cluster.address, RAY_DEDUP_LOGS="0")
        play.through = [*cluster.enter(), "env", f"--chdir={HOME}"]
        running(play)
        stops(play)
        fails(play)
        in_the_debugger_of_ray(play, cluster)


def running(play: Play) -> None:
    job = play.start()
    wait_until("rankdbg ps -t ray:auto", "Rollout.generate", through=play.through)
    play.run("Rollout.generate")
    play.run("Rollout.generate")
    play.run("NameError")
    play.run("all ranks have one", beginning="rankdbg check")
    end(job.process)
    _wait_until_workers_are_gone(play)


def stops(play: Play) -> None:
    ppo = start(
        [*play.through, "rankdbg", "run", "--job", "ppo", "--", "python", "ppo.py", "stops"]
    )
    play.run("Trainer 0-3  breakpoint")
    play.run("([1, 2], 1.5)")
    play.run("Trainer 0-3  resumed")
    play.run("driver 0  breakpoint")
    play.run("[0.5, 1.5, 0.5, 1.5]")
    end(ppo)
    _wait_until_workers_are_gone(play)


def fails(play: Play) -> None:
    words = [
        "rankdbg",
        "run",
        "--break-on-error",
        "--job",
        "ppo",
        "--",
        "python",
        "ppo.py",
        "fails",
    ]
    ppo = start([*play.through, *words])
    play.run("Trainer 2  post-mortem")
    play.run("Trainer 2  []")
    end(ppo)
    _wait_until_workers_are_gone(play)


def in_the_debugger_of_ray(play: Play, cluster: RayCluster) -> None:
    """Then the other node is lost, as a machine without power is."""
    start([*play.through, "python", "ppo.py", "driver-stops"])
    play.run("in Ray's own debugger")
    cluster.kill_node(OTHER)
    play.run("it has left the Ray cluster")


def _wait_until_workers_are_gone(play: Play) -> None:
    wait_until("rankdbg ps -t ray:auto", "error: no job", through=play.through)


SCENARIO = [
    NotRun(
        "needs Ray's job server, which comes with its dashboard", ("rankdbg why -t ray:auto --job",)
    ),
    NotRun("a rollout that is slow for minutes", ("rankdbg why -t ray:auto",)),
    Scene(
        one_cluster,
        (
            "rankdbg run --job ppo",
            "rankdbg ps -t ray:auto",
            "rankdbg stacks role=Rollout",
            "rankdbg ask role=Rollout seed",
            "rankdbg list",
            "rankdbg cast role=Trainer p batch, loss",
            "rankdbg continue role=Trainer",
            "rankdbg list",
            "rankdbg cast role=driver",
            "rankdbg list",
            "rankdbg cast role=Trainer,2",
            "rankdbg ps",
            "rankdbg ps",
            "rankdbg check",
        ),
    ),
]
