"""Logs of a job that has ended, of jobs that run, and of a job on Ray."""

from __future__ import annotations

import os
from pathlib import Path

from ray_cluster import RayCluster
from transcripts.crash_logs import write_crash, write_spans, write_stall
from transcripts.machine import HOME, copy_here, end, hide_kernel_log, memory_limit, start
from transcripts.scenario import NotRun, Play, Scene, cut_lines, first, wait_until

STEP = "[rank0]: [titan] %T,000 - root - INFO - step:  1  loss:  8.1  tps: 9  mfu: 1.00%\n"
OUT_OF_MEMORY = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def after_the_end(play: Play) -> None:
    write_crash(Path("logs"))
    write_spans(Path("outputs"))
    write_stall(Path("stalled"))
    play.run("The job failed: cuda_oom on rank 3, 2026-03-01 10:40:59")
    play.run("root cuda_oom 3")
    play.run("torchtitan")
    play.run("rank 2 has written nothing for 59 min")
    play.run("rank 2: torchtitan, step 5, fwd_bwd_start")
    play.run("OutOfMemoryError", keep=cut_lines)
    play.run("logged by rank 3", keep=cut_lines)


def while_it_runs(play: Play) -> None:
    hide_kernel_log()
    _start_job()
    following = play.start("rankdbg doctor --follow")
    following.wait_for("mesh")
    Path("talk/0.txt").write_text(STEP)
    following.wait_for("step")
    Path("talk/1.txt").write_text(OUT_OF_MEMORY)
    following.show("cuda_oom", "train.log:")
    play.run("cuda_oom")


def _start_job() -> None:
    """Two ranks that log what is written into talk/, and write into one file."""
    copy_here("tests/programs/launch.py", "tests/programs/logs_job.py")
    Path("talk").mkdir()
    words = ["rankdbg", "run", "--job", "train", "--", "python", "launch.py", 2, "logs_job.py"]
    with Path("train.log").open("wb") as log:
        start([*words, "talk"], stdout=log, stderr=log)
    wait_until("rankdbg ps", "2 ranks")


def on_ray(play: Play) -> None:
    hide_kernel_log()
    copy_here("docs/transcripts/programs/ray/train.py")
    with RayCluster() as cluster, Path("train.log").open("wb") as log:
        os.environ.update(RAY_ADDRESS=cluster.address)
        play.through = [*cluster.enter(), "env", f"--chdir={HOME}"]
        start([*play.through, "python", "train.py"], stdout=log, stderr=log)
        wait_until("cat train.log", "shard 1 is damaged")
        play.run("python_error on rank 1", keep=first(12))


def killed_by_the_kernel(play: Play) -> None:
    copy_here("tests/programs/launch.py", "docs/transcripts/programs/eats.py")
    with memory_limit(100_000_000) as group:
        words = ["rankdbg", "run", "--job", "train", "--", "python", "launch.py", 2, "eats.py"]
        with Path("train.log").open("wb") as log:
            job = start([*words, group], stdout=log, stderr=log)
        try:
            wait_until("rankdbg ps --job train", "zombie", "eats.py:14")
            play.run("on rank 1")
        finally:
            end(job)


SCENARIO = [
    Scene(
        after_the_end,
        (
            "rankdbg doctor logs",
            "rankdbg doctor logs --json",
            "rankdbg phases logs",
            "rankdbg doctor stalled",
            "rankdbg doctor outputs",
            "rankdbg logs logs",
            "rankdbg logs 3",
        ),
    ),
    Scene(while_it_runs, ("rankdbg doctor --job train", "rankdbg doctor --follow")),
    Scene(on_ray, ("rankdbg doctor -t ray:",)),
    Scene(killed_by_the_kernel, ("rankdbg doctor --job train",), own_pids=False),
    NotRun("shows commands alone", ("rankdbg rules check mine.toml", "rankdbg doctor logs")),
]
