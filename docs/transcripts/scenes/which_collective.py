"""A rank that skips a collective, one that enters it with another size, and two sets of dumps."""

from __future__ import annotations

import os

from transcripts.machine import CHECKOUT, copy_here, start
from transcripts.scenario import Play, Scene, wait_until

DUMPS = CHECKOUT.parent / "shared/data/flight_recorder"


def skips_a_collective(play: Play) -> None:
    copy_here("examples")
    play.start()
    wait_until("rankdbg collectives", "Rank 2 holds the others up.")
    play.run("Rank 2 holds the others up.")


def other_size(play: Play) -> None:
    copy_here("tests/programs/collectives_torch.py")
    command = ["torchrun", "--nproc-per-node", 4, "collectives_torch.py", "other_shape", "."]
    start(["rankdbg", "run", "--job", "sizes", "--", *command])
    play.run("Rank 3 holds the others up.")


def dumps(play: Play) -> None:
    os.symlink(DUMPS / "lock_gil_1st", "traces-gil")
    os.symlink(DUMPS / "gpu_error_2nd", "traces-gpu")
    play.run("Ranks 9,14 hold the others up.")
    play.run("Ranks 9,14 hold the others up.")


SCENARIO = [
    Scene(skips_a_collective, ("rankdbg run --job skips", "rankdbg collectives --job skips")),
    Scene(other_size, ("rankdbg collectives --job sizes",)),
    Scene(dumps, ("rankdbg collectives --dumps", "rankdbg collectives --dumps")),
]
