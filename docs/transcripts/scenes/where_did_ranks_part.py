"""A rank that takes another branch, and the job that hangs much later."""

from __future__ import annotations

from transcripts.machine import copy_here
from transcripts.scenario import Play, Scene, wait_until

PARTED = "Rank 2 parted from ranks 0-1,3 in step 41"


def takes_another_branch(play: Play) -> None:
    copy_here("examples")
    play.start()
    wait_until("rankdbg history", PARTED)
    play.run(PARTED)
    play.run("Rank 2 parted from rank 0 in step 41")
    play.run("accepted=0")


SCENARIO = [
    Scene(
        takes_another_branch,
        (
            "rankdbg run --job branch",
            "rankdbg history --job branch",
            "rankdbg history --job branch --diff",
            "rankdbg history --job branch --step",
        ),
    ),
]
