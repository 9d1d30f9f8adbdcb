"""stalls: who holds up a job in which nothing has failed, and who only waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis, stall_in_words
from rankdbg.investigations.logs.log_sources import given_logs
from rankdbg.verdicts.failures.stalls import Stall
from rankdbg.verdicts.rules.log_rules import load_rules
from stories import Story
from stories_of_bars import (
    bar_that_was_left_while_the_job_trains,
    bars_that_are_complete,
    rank_whose_bar_has_stopped,
)

RULES = load_rules()
HOUR = 3600.0


def diagnosed(story: Story, folder: Path) -> LogDiagnosis:
    story.write(folder)
    return LogDiagnosis.of(given_logs([str(folder)], RULES.patterns()).scan(), RULES, None)


def stalled(story: Story, folder: Path) -> Stall:
    stall = diagnosed(story, folder).stall
    assert stall is not None
    return stall


def ranks_of(stall: Stall) -> list[int | None]:
    return [course.who.rank for course in stall.courses]


def job(last_steps: Sequence[int], monitored: float = 2 * HOUR) -> Story:
    """Each rank with its last step; a monitor writes on."""
    story = Story(())
    for rank, last in enumerate(last_steps):
        for step in range(1, last + 1):
            second = 60.0 + 5 * step
            clock = story.clock(second, story.host_of(rank))
            story.put(story.out(rank), second, f"[rank{rank}]:[titan] {clock} - root - INFO - step: {step:2}  loss:  8.1000  memory:  4.80GiB(6.00%)  tps: 20")  # fmt: skip
    second = 0.0
    while second < monitored:
        story.put("monitor.log", second, f"{story.clock(second)} INFO gpu util 100")
        second += 60.0
    return story


def test_rank_that_is_a_step_behind(tmp_path: Path) -> None:
    """It is named with its host; the others wait for it."""
    found = diagnosed(job([50] * 11 + [49] + [50] * 4), tmp_path)
    assert found.stall is not None
    assert (ranks_of(found.stall), found.stall.host) == ([11], "node-2")
    assert len(found.stall.waiting) == 15
    assert found.finds_trouble
    assert found.as_json()["stall"]["ranks"] == "11"
    rows = {row["rank"]: row for row in found.phases.rows() if row["rank"] is not None}
    assert [rank for rank, row in rows.items() if row["stalled"]] == [11]


def test_only_one_rank_writes(tmp_path: Path) -> None:
    """Nothing says which of them holds up the others."""
    stall = stalled(job([50]), tmp_path)
    assert stall.of_job
    assert stall_in_words(stall).startswith("no step was logged for 1.9 h")


def test_ranks_that_stop_together(tmp_path: Path) -> None:
    assert stalled(job([50] * 16), tmp_path).of_job


def test_rank_that_logs_less_often(tmp_path: Path) -> None:
    """Every tenth step, where others log each: it is not behind."""
    story = job([57] * 15)
    for step in range(10, 51, 10):
        second = 60.0 + 5 * step
        story.put(story.out(15), second, f"[rank15]:[titan] {story.clock(second, 'node-2')} - root - INFO - step: {step:2}  loss:  8.1000  memory:  4.80GiB(6.00%)  tps: 20")  # fmt: skip
    assert stalled(story, tmp_path).of_job


def test_steps_without_clocks(tmp_path: Path) -> None:
    """When the last of them was is not known: it may have been just now."""
    story = Story(())
    story.put("train-0.log", 60, f"I0504 {story.at(60):%H:%M:%S}.000000 7 main.py:3] compiled")
    for step in range(400):
        story.put("train-0.log", 70 + step, f"completed step: {step}, seconds: 10.1, loss: 8.1")
    for second in (60, 7200):
        story.put("train-1.log", second, f"I0504 {story.at(second):%H:%M:%S}.000000 7 main.py:9] alive")  # fmt: skip
    assert diagnosed(story, tmp_path).stall is None


def loading(*early: int, watched: float = 0.0) -> Story:
    """All ranks load a checkpoint and wait for the last; the early ones have written nothing for
    minutes when the others come to that. The clocks of ranks are two hours ahead of a monitor's, which
    names its zone."""
    story = Story(())
    for rank in range(story.world):
        until = 300.0 if rank in early else 540.0
        story.put(story.out(rank), 60, f"{story.clock(60)} [rank{rank}] loading checkpoint from /ckpt at iteration 400")  # fmt: skip
        for second in range(70, int(until), 10):
            story.put(story.out(rank), second, f"{story.clock(second)} read a shard at 1.2 GiB/s")
        story.put(story.out(rank), until, f"{story.clock(until)} read the last of {rank + 3}")
    second = watched
    while second < 2 * HOUR:
        moment = story.at(second - 2 * HOUR)
        story.put("monitor.log", second, f"{moment:%Y-%m-%dT%H:%M:%SZ} level=info gpus=8 load=8.2")
        second += 60.0
    return story


def test_rank_that_was_silent_first(tmp_path: Path) -> None:
    """The others have come to where they wait for all; how long ago, a monitor's clock tells."""
    stall = stalled(loading(13), tmp_path)
    assert (ranks_of(stall), stall.host) == ([13], "node-2")
    assert len(stall.waiting) == 15


@pytest.mark.parametrize("early", [(), tuple(range(8)), tuple(range(1, 16))], ids=len)
def test_no_rank_was_silent_first(tmp_path: Path, early: tuple[int, ...]) -> None:
    """All together, half of them, or all but one: none of these is a few that hold up the rest."""
    assert len(ranks_of(stalled(loading(*early), tmp_path))) == 16


def test_monitor_that_began_at_another_time(tmp_path: Path) -> None:
    """Its clock tells nothing of the job's zone."""
    assert diagnosed(loading(13, watched=1500.0), tmp_path).stall is None


def test_others_continue(tmp_path: Path) -> None:
    """A rank that has stopped to write in a job that makes progress is not said to hold it up."""
    assert diagnosed(job([1400] * 15 + [50]), tmp_path).stall is None


def test_finished(tmp_path: Path) -> None:
    """A monitor that writes on after the end is no job that is stalled."""
    story = job([50] * 16)
    story.put(story.out(0), 320, f"{story.clock(320, 'node-1')} Training completed")
    found = diagnosed(story, tmp_path)
    assert found.stall is None
    assert not found.finds_trouble


def test_logs_that_end_now(tmp_path: Path) -> None:
    assert diagnosed(job([50] * 16, monitored=300.0), tmp_path).stall is None


def test_a_failure_says_more(tmp_path: Path) -> None:
    story = job([50] * 16)
    story.traceback(3, 315, "ValueError: shapes do not match")
    found = diagnosed(story, tmp_path)
    assert found.stall is None
    assert found.failures[0].ranks == (3,)


def engines(*lines: tuple[float, str]) -> Story:
    """A driver's log, as Ray copies the lines of actors into it, and a raylet's that goes on."""
    story = Story((), hosts=("node-1",))
    for second, line in lines:
        story.put("driver.log", second, line)
    for minute in range(120):
        second = 60.0 * minute
        story.put("raylet.out", second, f"[{story.clock(second)} I 99 99] (raylet) node_manager.cc:1: ok")  # fmt: skip
    return story


def _says(second: float, who: str, text: str) -> tuple[float, str]:
    story = Story(())
    return second, f"({who}) [{story.at(second):%Y-%m-%d %H:%M:%S}] {text}"


def test_engine_in_the_middle_of_its_start(tmp_path: Path) -> None:
    """The trainers have their models, the driver waits for actors, one engine is ready: the one that
    captures its graphs holds them up. Its own file says the same with the ranks of its own."""
    first, second = "SglEngine pid=9900, ip=10.3.0.12", "SglEngine pid=9921, ip=10.3.0.13"
    bar = "Capturing batches (bs=80 avail_mem=9.96 GB):  73%|███████▎  | 38/52 [00:44<00:18,  1.30s/it]"  # fmt: skip
    story = engines(
        _says(60, "MainThread pid=1", "Waiting for 2 Sgl engines to initialize"),
        _says(90, "TrainerActor pid=7100", "[Rank 0] Eagle3 model initialized with FSDP2"),
        _says(100, first, bar.replace("73%", "100%").replace("38/52", "52/52")),
        _says(110, first, "SglEngine rank 0: initialized from /models/x"),
        _says(120, second, "SglEngine rank 1: Capture cuda graph begin."),
        _says(121, second, bar),
    )
    worker = "node1/logs/worker-9414bf801f10363310a8d8d4f4e472cfa93d374447ec54b4eec83b52-02000000-9921.err"  # fmt: skip
    story.put(
        worker, 120, f"[{story.at(120):%Y-%m-%d %H:%M:%S} TP3] Capture cuda graph begin.", bar
    )
    stall = stalled(story, tmp_path)
    assert [(course.who.actor, course.who.pid) for course in stall.courses] == [("SglEngine", 9921)]
    rows = LogDiagnosis.of(given_logs([str(tmp_path)], RULES.patterns()).scan(), RULES, None).phases
    assert not [row for row in rows.rows() if row["pid"] == 9921 and row["rank"] == 3]


def test_bar_that_is_not_complete(tmp_path: Path) -> None:
    """A rank whose bar has stopped holds up those whose bars are complete, also where only its other
    file has clocks."""
    stall = stalled(rank_whose_bar_has_stopped(), tmp_path)
    assert ranks_of(stall) == [11]
    assert stall.host == "node-2"


@pytest.mark.parametrize("make", [bars_that_are_complete, bar_that_was_left_while_the_job_trains])
def test_bars_that_hold_nothing_up(tmp_path: Path, make: Callable[[], Story]) -> None:
    """A bar that is complete, or that was left while the job does its steps, accuses no rank."""
    assert diagnosed(make(), tmp_path).stall is None


def test_engine_whose_driver_counts_steps(tmp_path: Path) -> None:
    """An engine that has written nothing since its start is none that holds up a job that does steps."""
    story = Story(())
    story.put("engine.log", 30, f"[{story.clock(30)[:19]} TP1] Capture cuda graph begin. This can take up to several minutes.")  # fmt: skip
    for step in range(1, 400):
        second = 60.0 + 20 * step
        story.put("driver.log", second, f"[rank0]:[titan] {story.clock(second)} - root - INFO - step: {step:2}  loss:  8.1000  memory:  4.80GiB(6.00%)  tps: 20")  # fmt: skip
    assert diagnosed(story, tmp_path).stall is None
    del story.lines["driver.log"]
    for second in (30, 9130):
        story.put("driver.log", second, f"{story.clock(second)} waiting for engines")
    assert diagnosed(story, tmp_path).stall is not None
