"""Small jobs whose ranks show how far they are with bars that have no clocks."""

from __future__ import annotations

from stories import Story


def _bars(story: Story, rank: int, name: str, begin: float, done: int) -> None:
    """Of a hundred parts, one every six seconds, on one line of stderr."""
    bars = (f"{name}: {n:3d}%|{'#' * (n // 10):10}| {n}/100 [{n * 6 // 60:02d}:{n * 6 % 60:02d}<10:00,  6.0s/it]" for n in range(0, done + 1, 5))  # fmt: skip
    story.put(story.err(rank), begin, "\r".join(bars))


def _monitor(story: Story, until: float, ahead: float) -> None:
    """In another time zone than the job, and for longer than it."""
    for second in range(-600, int(until), 60):
        story.put("gpu.csv", second, f"{story.at(second + ahead):%Y/%m/%d %H:%M:%S}.000, 0, 97 %, 61022 MiB")  # fmt: skip


def _prepared(story: Story, stuck: int, parts: int) -> Story:
    """All ranks prepare the data, and write to stdout before and after it."""
    for rank in range(story.world):
        host = story.host_of(rank)
        story.put(story.out(rank), 30, f"{story.clock(30, host)} [rank{rank}] preparing the data")
        _bars(story, rank, "Tokenizing", 32, parts if rank == stuck else 100)
        if rank != stuck:
            story.put(
                story.out(rank), 640, f"{story.clock(640, host)} [rank{rank}] waiting for all ranks"
            )
    story.put("driver.log", 30, f"{story.clock(30)} started")
    story.put("driver.log", 4000, f"{story.clock(4000)} still waiting for 16 ranks")
    _monitor(story, 4000, 7200)
    return story


def rank_whose_bar_has_stopped() -> Story:
    return _prepared(Story((), 11, "node-2"), 11, 45)


def bars_that_are_complete() -> Story:
    """Then nothing says who holds the job up, or that it is held up at all."""
    return _prepared(Story(()), 11, 100)


def bar_that_was_left_while_the_job_trains() -> Story:
    story = Story(())
    for rank in range(story.world):
        _bars(story, rank, "Tokenizing", 32, 45 if rank == 11 else 100)
    story.steps(4000)
    _monitor(story, 4000, 7200)
    return story
