"""A job with three dimensions."""

from __future__ import annotations

from transcripts.machine import copy_here, start
from transcripts.scenario import Play, Scene, wait_until

MESH = "pp=4,dp=2,tp=4"


def no_such_dimension(play: Play) -> None:
    copy_here("tests/programs/launch.py", "tests/programs/behave.py")
    ranks = ["python", "launch.py", 32, "behave.py", *["waits"] * 32]
    start(["rankdbg", "run", "--mesh", MESH, "--", *ranks])
    wait_until("rankdbg ps", "32 ranks")
    play.run("did you mean dp?")


SCENARIO = [Scene(no_such_dimension, ("rankdbg stacks 'ranks(pp=2, tp=0:4, dq=1)'",))]
