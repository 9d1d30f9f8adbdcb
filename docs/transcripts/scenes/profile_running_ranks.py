"""Four ranks, one of them with compressed data."""

from __future__ import annotations

from transcripts.machine import copy_here
from transcripts.scenario import Play, Scene, wait_until


def loads_slowly(play: Play) -> None:
    copy_here("examples")
    play.start()
    wait_until("rankdbg ps", "4 ranks", "train_step")
    play.run("rank 3 is the slowest")
    play.run("rank 3 is the slowest")


SCENARIO = [
    Scene(
        loads_slowly,
        (
            "rankdbg run --job slow",
            "rankdbg profile 0,3 --job slow --seconds 5",
            "rankdbg profile 0,3 --job slow --kind torch",
        ),
    )
]
