"""A rank that divides zeros by their norm: armed, and not."""

from __future__ import annotations

from transcripts.machine import copy_here
from transcripts.scenario import Play, Scene, wait_until

FOUND = "in the output of rows"


def armed_from_the_start(play: Play) -> None:
    copy_here("examples")
    play.start()
    wait_until("rankdbg nan", FOUND, "rankdbg continue 1")
    play.run(FOUND)
    play.run("nan_from_one_batch.py")
    play.run("tensor(0.)")
    play.run("resumed")


def not_armed(play: Play) -> None:
    copy_here("examples")
    play.start()
    wait_until("rankdbg nan", "the first one is over")
    play.run("the first one is over")


SCENARIO = [
    Scene(
        armed_from_the_start,
        (
            "rankdbg run --job nans",
            "rankdbg nan --job nans",
            "rankdbg list",
            "rankdbg cast",
            "rankdbg continue",
        ),
    ),
    Scene(not_armed, ("rankdbg run --job later", "rankdbg nan --job later")),
]
