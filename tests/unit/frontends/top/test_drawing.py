"""The screen of `rankdbg top` as text, without a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from live_pictures import STUCK, demo_job, many_jobs, picture, rank, steps
from rankdbg import selection
from rankdbg.frontends.top.drawing import draw
from rankdbg.frontends.top.tables import rate_text
from rankdbg.frontends.top.views import Page, Picture, Place, View
from rankdbg.investigations.watch.live_jobs import GpuUse, JobsLook, LiveJob
from rankdbg.types import Frame

JOB = View(places=(Place("jobs"), Place("groups", job="demo")))


def text(view: View, shown: Picture, columns: int = 80, rows: int = 24, now: float = 100.0) -> str:
    return "\n".join(
        "".join(piece for _, piece in line) for line in draw(view, shown, columns, rows, now)
    )


def styles(view: View, shown: Picture) -> dict[str, str]:
    pieces = [piece for line in draw(view, shown, 80, 24, 100.0) for piece in line]
    return {piece.strip(): style for style, piece in pieces}


def test_a_stuck_job() -> None:
    """Title, verdict, groups with the odd one marked, keys: in 24 lines of 80 columns."""
    shown = picture(demo_job(still=41.0, steps=steps(7, 7)), verdicts={"demo": STUCK})
    lines = text(JOB, shown).split("\n")
    assert lines[0].split("   ")[:3] == ["rankdbg top", "local", "1 job"]
    assert len(lines[0]) == 80 and lines[0].endswith(" every 2 s")
    assert lines[1] == "demo   8 ranks on 1 node   dp=4 tp=2   for 4 min   step 7"
    assert lines[2] == "The job is stuck: no rank has made progress for 41 s."
    assert lines[3] == "  culprit  rank 5 (dp=2 tp=1, node-1, pid 105)"
    assert lines[10:12] == [
        "> 0-4,6-7  running  Ring.receive  train.py:30   41 s",
        "  5        running  read_shard    data.py:11    41 s   <- alone here",
    ]
    assert lines[-1].startswith("Enter ranks  w why")
    assert len(lines) == 24
    assert styles(JOB, shown)["<- alone here"] == "red"


def test_jobs() -> None:
    """A row for each, and below it its state."""
    moving = replace(demo_job(steps=steps(1204, 1204, 3.14)), name="train")
    use = GpuUse({r.process: 87.0 for r in moving.ranks}, {"node-1": 50.0})
    shown = picture(demo_job(still=41.0), moving, verdicts={"demo": STUCK}, gpus=use)
    lines = text(View(), shown).split("\n")
    assert lines[2].split() == ["JOB", "RANKS", "NODES", "FOR", "STEP", "STEPS/S", "GPU"]
    assert lines[3].split() == [">", "demo", "8", "1", "4", "min", "87%"]
    assert lines[4].startswith("    stuck for 41 s: rank 5 (dp=2 tp=1, node-1, pid 105): waiting")
    assert lines[4].endswith("…") and len(lines[4]) == 80
    assert lines[5].split() == ["train", "8", "1", "4", "min", "1204", "3.14", "87%"]
    assert lines[6] == "    making progress"


@pytest.mark.parametrize(
    ("rate", "shown"),
    [(None, ""), (312.4, "312"), (31.24, "31.2"), (3.124, "3.12"), (0.05, "3.0/min")],
)
def test_rates(rate: float | None, shown: str) -> None:
    """Three digits; slow ones by the minute."""
    assert rate_text(steps(1, 1, rate)) == shown


def test_every_size_is_filled_and_kept_to() -> None:
    """No line is wider or lower than the terminal, whatever its size."""
    shown = picture(demo_job(still=41.0), *many_jobs(30), verdicts={"demo": STUCK})
    for view in (View(), JOB):
        for columns in (1, 12, 39, 40, 53, 80, 200):
            for rows in (1, 3, 7, 8, 11, 24, 60):
                lines = text(view, shown, columns, rows).split("\n")
                assert len(lines) <= rows
                assert max(map(len, lines)) <= columns, (columns, rows)


def test_a_small_terminal_gets_one_sentence() -> None:
    told = text(JOB, picture(demo_job()), 34, 6)
    assert told == "This terminal has 34 × 6\ncharacters: 40 × 8 are needed. q\nquits."


def test_cursor_is_on_the_screen() -> None:
    """Of many jobs those around it."""
    shown = picture(*many_jobs(30))
    for index in (0, 7, 15, 29):
        view = View(places=(Place("jobs", cursor=f"job-{index:02}"),))
        assert f"> job-{index:02}" in text(view, shown, 80, 12)


def test_no_answer() -> None:
    """What was seen last stays; for how long there is no answer, and why, is said."""
    shown = replace(picture(demo_job()), failure="ssh: gpu-1: connection refused", asked=111.0)
    told = text(JOB, shown, now=112.0)
    assert "no response for 12 s: ssh: gpu-1: connection refused" in told
    assert "0-4,6-7" in told
    late = replace(picture(demo_job()), asked=101.0)
    assert "no response" not in text(JOB, late, now=103.0)
    assert "no response for 7 s" in text(JOB, late, now=107.0)


def test_silent_nodes() -> None:
    told = text(JOB, picture(demo_job(), silent_nodes={"gpu-2": "connection refused"}))
    assert "no response: node gpu-2  (connection refused)" in told
    nodes = {f"gpu-{number}": "connection refused" for number in range(9)}
    assert "no response: 8 more nodes" in text(JOB, picture(demo_job(), silent_nodes=nodes))


def test_no_job_and_ended_jobs() -> None:
    """What can be done is said."""
    assert "no job is running here\nstart one: rankdbg run" in text(View(), picture())
    wanted = JobsLook(0.0, {}, job="train", others=("demo", "eval"))
    told = text(View(), Picture(look=wanted))
    assert "no job 'train' is running here\nrunning: demo, eval" in told
    ended = picture(demo_job(ended=88.0), verdicts={"demo": STUCK})
    assert "ended 12 s ago\nwhat its logs say: rankdbg doctor --job demo\n" in text(JOB, ended)
    assert "ended 12 s ago" in text(View(), ended)
    assert "job demo is no longer running" in text(JOB, picture())


def test_filter() -> None:
    """Only the chosen ranks; one that picks none says so."""
    shown = picture(demo_job())
    told = text(replace(JOB, chosen=selection.parse("dp=2")), shown)
    assert "  4      running" in told.replace(">", " ")
    assert "0-4" not in told
    assert "filter dp=2" in told
    assert "no rank 77" in text(replace(JOB, chosen=selection.parse("77")), shown)


def test_text_of_the_job_is_text() -> None:
    """Names with control characters are spelled out everywhere."""
    bad = "\x1b[2Jevil\n\u202e"
    ranks = (rank(0, Frame(bad, f"/{bad}.py", 1), role=bad, host=bad, detail=bad), rank(1))
    job = LiveJob(bad, ranks)
    shown = picture(job, silent_nodes={bad: bad}, failure=bad)
    places = (Place("groups", job=bad), Place("ranks", job=bad, title=bad))
    views = [View(), *(View(places=(place,)) for place in places)]
    views.append(View(places=(Place("page", page=Page(bad, "why", failure=bad)),), typed=bad))
    for view in views:
        told = text(view, shown)
        assert "evil" in told
        assert not {"\x1b", "\u202e"} & {*told}


def test_long_lines_of_a_page_are_wrapped() -> None:
    """Nothing of a message is lost, and it keeps its styles."""
    page = Page("logs", "logs", lambda terminal: terminal.print(terminal.bold("x" * 90) + "end"))
    lines = draw(View(places=(Place("page", page=page),)), picture(), 80, 24, 0.0)
    assert lines[2] == [("bold", "x" * 80)]
    assert lines[3] == [("bold", "x" * 10), ("", "end")]


def test_logs_begin_at_their_end() -> None:
    def show(terminal: object) -> None:
        for number in range(100):
            terminal.print(f"message {number}")  # type: ignore[attr-defined]

    pages = (Page("logs", "logs", show), Page("why", "why", show))
    logs, why = (text(View(places=(Place("page", page=page),)), picture()) for page in pages)
    assert "message 99" in logs and "80-100 of 100" in logs
    assert "message 0\n" in why and "1-21 of 100" in why
