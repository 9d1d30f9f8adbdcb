"""Looks at one job again and again: a hang is judged once, and again when it has changed."""

from __future__ import annotations

from pathlib import Path

from jobs import Job, start_demo
from rankdbg.investigations.reached_job import ReachedJob
from rankdbg.investigations.watch.live_looks import LiveLook, LiveLooks
from waiting import wait_for


def test_a_hang_is_judged_once(job: Job, tmp_path: Path) -> None:
    """After that polls say that it is as before, and for how long; until a rank moves."""
    start_demo(job, tmp_path)
    wait_for(lambda: (tmp_path / "meeting/shard-0007").exists(), "rank 5 waits")
    with job.session() as session:
        looks = LiveLooks(ReachedJob(session, job.name))
        seen: list[LiveLook] = []

        def look() -> LiveLook:
            seen.append(looks.look())
            return seen[-1]

        first = wait_for(lambda: look().found.stuck and seen[-1], lambda: seen[-1:])
        assert first.is_new and first.found.culprit_text(first.found.verdict.findings[0])
        poll = wait_for(lambda: not look().is_new and seen[-1], lambda: seen[-1:])
        assert first.found.nodes is not None and first.found.nodes.well
        assert poll.found.nodes is not None and poll.found.nodes.well
        assert poll.found.headline().startswith("The job is stuck: ranks have waited for ")
        assert poll.found.evidence is not None and poll.found.stuck
        (tmp_path / "meeting/shard-0007").write_text("1.0\n")
        wait_for(lambda: look().found.verdict.state == "moving", lambda: seen[-1:])
        assert seen[-1].is_new
