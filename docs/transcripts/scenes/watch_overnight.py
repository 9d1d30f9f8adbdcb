"""The job of a-job-hangs, watched."""

from __future__ import annotations

from transcripts.machine import copy_here
from transcripts.scenario import NotRun, Play, Scene, said_by_rankdbg


def hangs_at_night(play: Play) -> None:
    copy_here("examples/data_loader_hangs.py")
    play.start().show("exit status 86", keep=said_by_rankdbg)
    play.run("rank 1: data-loading")  # cat


SCENARIO = [
    Scene(hangs_at_night, ("rankdbg watch --job train", "cat told.txt")),
    NotRun("shows commands alone", ("rankdbg watch -t slurm:4711", "rankdbg watch --config")),
]
