"""A rank that changes one weight of its own; silent errors that were reported in public."""

from __future__ import annotations

from collections.abc import Callable

from transcripts.machine import copy_here
from transcripts.scenario import Play, Scene, wait_until

EQUAL = "No difference: 6 tensors of ranks 0-2 at step"
DIFFERS = "the first is 1.weight: rank 1"


def one_rank_drifts(play: Play) -> None:
    copy_here("examples")
    play.start()
    wait_until("rankdbg diverge", EQUAL)
    play.run(EQUAL)
    wait_until("rankdbg diverge", DIFFERS)
    play.run("since step 160; equal at step 150")
    play.run("changed outside")


def silent_error(says: str) -> Callable[[Play], None]:
    def play_it(play: Play) -> None:
        copy_here("examples")
        play.start()
        wait_until("rankdbg diverge", "at step")
        play.run(says)

    return play_it


SAYS = {
    "loaded": "changed outside",
    "buffer": "no broadcast makes it equal",
    "clipped": "dropout masks",
    "healthy": "No difference",
}
SCENARIO = [
    Scene(
        one_rank_drifts,
        (
            "rankdbg run --job drift",
            "rankdbg diverge --job drift --every",
            "rankdbg diverge --job drift",
            "rankdbg diverge --job drift --first",
        ),
    ),
    *(
        Scene(silent_error(says), (f"rankdbg run --job {name}", f"rankdbg diverge --job {name}"))
        for name, says in SAYS.items()
    ),
]
