"""Four ranks, of which rank 1 waits for its data loader."""

from __future__ import annotations

import json

from transcripts.machine import copy_here
from transcripts.scenario import Play, Scene, last, run_in_shell, wait_until


def data_loader_hangs(play: Play) -> None:
    copy_here("examples/data_loader_hangs.py")
    job = play.start("rankdbg run")
    wait_until("rankdbg ps", "data_loader_hangs.py:32   <- alone here")
    job.show(keep=lambda lines: lines[:1])
    play.run("high")  # why
    play.run("medium")  # why --outside
    play.run("<- alone here")  # ps
    play.run("<- odd one out")  # stacks
    play.run("(8, 8)")  # ask
    play.run("Shards.__getitem__")  # stacks --children
    play.run("Shards.__ge")  # ps --all
    play.run("NameError")  # ask all
    pid = _pid_of_rank(1)
    play.run(
        typed=f"kill -STOP {pid}                                 # rank 1, for the sake of this page"
    )
    play.run("stopped by a signal")
    run_in_shell(f"kill -CONT {pid}")
    play.run("saved", keep=last(1))


def _pid_of_rank(number: int) -> int:
    ranks = json.loads(run_in_shell("rankdbg ps --json"))["ranks"]
    return next(rank["pid"] for rank in ranks if rank["rank"] == number)


SCENARIO = [
    Scene(
        data_loader_hangs,
        (
            "rankdbg why",
            "rankdbg run --job train",
            "rankdbg why --outside",
            "rankdbg ps",
            "rankdbg stacks",
            "rankdbg ask 1",
            "rankdbg stacks 1 --children",
            "rankdbg ps --all",
            "rankdbg ask all",
            "kill -STOP",
            "rankdbg ps",
            "rankdbg why --save hang",
        ),
    )
]
