"""The job of `rankdbg demo`: eight ranks, of which rank 5 reads a shard that never arrives."""

from __future__ import annotations

from pathlib import Path

from transcripts.machine import CHECKOUT, copy_here
from transcripts.scenario import Play, Scene, wait_until

DEMO = CHECKOUT / "src/rankdbg/demo"


def demo(play: Play) -> None:
    copy_here(*(path.relative_to(CHECKOUT) for path in DEMO.glob("[a-z]*.py")))
    Path("shards").mkdir()
    play.start()
    wait_until("rankdbg ps", "<- alone here")
    play.run("<- alone here")
    play.run("culprit     rank 5")


SCENARIO = [Scene(demo, ("rankdbg run --mesh dp=4,tp=2", "rankdbg ps", "rankdbg why"))]
