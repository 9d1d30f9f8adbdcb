"""Four ranks that train, one of them with a loss that is nan; and the job of a-job-hangs."""

from __future__ import annotations

from transcripts.machine import copy_here, start
from transcripts.scenario import Play, Scene, wait_until


def nan_on_one_rank(play: Play) -> None:
    copy_here("examples")
    play.start()
    wait_until("rankdbg ask all loss --frame train", "nan  float32")
    play.run("nan  float32 cpu   <- odd one out")
    play.run("nan 1")


def data_loader_hangs(play: Play) -> None:
    copy_here("examples/data_loader_hangs.py")
    start(["rankdbg", "run", "--", "torchrun", "--nproc-per-node", 4, "data_loader_hangs.py"])
    wait_until("rankdbg ps", "data_loader_hangs.py:32   <- alone here")
    play.run("NameError")


SCENARIO = [
    Scene(
        nan_on_one_rank,
        ("rankdbg run --job nans", "rankdbg ask all loss", "rankdbg ask all batch"),
    ),
    Scene(data_loader_hangs, ("rankdbg ask all 'loss, step'",)),
]
