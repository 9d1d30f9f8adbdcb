"""rankdbg.connect(): the investigations from Python, on real ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rankdbg
from jobs import PROGRAMS, Job, start_demo
from rankdbg.errors import BadInput, ChooseJob, ExpressionError, NoJob, RankdbgError, SelectionError
from rankdbg.investigations.connection import JobConnection
from waiting import PATIENCE, wait_for

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def connected(job: Job, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobConnection]:
    monkeypatch.setenv("RANKDBG_DIR", str(job.directory))
    with rankdbg.connect(job=job.name) as connection:
        yield connection


def start(job: Job, *behaviours: str) -> None:
    job.start_ranks(*behaviours)
    job.wait_at(*behaviours)


def test_ranks_and_selections(job: Job, connected: JobConnection) -> None:
    """A selection has the same methods, and can be narrowed further."""
    start(job, "waits", "waits", "waits_elsewhere")
    assert {rank.number for rank in connected.ranks} == {0, 1, 2}
    some = connected.select("0-1")
    assert {rank.number for rank in some.ranks} == {0, 1}
    assert [rank.number for rank in some.select("1").ranks] == [1]
    assert len(some.stacks().seen) == 2
    assert repr(some) == f"<JobView: 0-1 at local, job {job.name}>"
    assert "<td" in connected._repr_html_()
    with pytest.raises(SelectionError):
        _ = some.select("2").ranks


def test_results_are_values_json_html_and_tables(job: Job, connected: JobConnection) -> None:
    """The JSON of a result is what the command line prints; the odd rank is marked in HTML."""
    start(job, "waits", "waits", "waits", "waits_elsewhere")
    stacks = connected.stacks()
    assert repr(stacks) == "<MergedStacks: 4 ranks, 3 samples, nothing moved>"
    html = stacks._repr_html_()
    assert "waits_elsewhere" in html and "odd one out" in html
    printed = job.json("stacks")
    assert {"schema": "rankdbg.stacks/1", **stacks.as_json()} == printed
    answers = connected.ask("loss")
    printed = job.json("ask", "all", "loss")
    assert [group["ranks"] for group in answers.as_json()["groups"]] == [
        group["ranks"] for group in printed["groups"]
    ]
    assert repr(answers) == "<Answers: loss: 4 ranks, 3 different values, odd: 1,3>"
    frame = answers.to_pandas()
    assert list(frame["odd"]) == [False, True, False, True]
    assert frame["value"].max() == 9.75
    with pytest.raises(AttributeError):
        answers.expression = "other"  # type: ignore[misc]


def test_text_of_ranks_is_never_markup(job: Job, connected: JobConnection) -> None:
    """A value, a frame or an expression with a script in it is shown as text."""
    start(job, "waits")
    html = connected.ask(repr(SCRIPT))._repr_html_()
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 3  # headline, column, value


def test_several_threads_at_once(job: Job, connected: JobConnection) -> None:
    """Every answer is the one to its own question."""
    start(job, "waits", "waits")
    with ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(connected.ask, [f"rank + {number}" for number in range(24)]))
        seen = list(pool.map(lambda _: connected.stacks(samples=1), range(8)))
    for number, answers in enumerate(asked):
        assert sorted(a.value.number for a in answers.answered) == [number, number + 1]
    assert all(len(stacks.seen) == 2 for stacks in seen)


def test_what_goes_wrong_is_a_rankdbg_error(job: Job, connected: JobConnection) -> None:
    """Wrong input, no job, and a connection that was closed."""
    start(job, "waits")
    with pytest.raises(ExpressionError):
        connected.ask("1 +")
    assert "no probe magic on this node" in str(connected.stacks(engine="magic").as_json()["why"])
    with pytest.raises(BadInput, match="invalid hang_after"):
        connected.watch(hang_after=0)
    with pytest.raises(NoJob), rankdbg.connect(job="no-such-job") as other:
        other.stacks()
    connected.close()
    connected.close()
    with pytest.raises(BadInput, match="the connection is closed"):
        connected.stacks()


def test_progress_is_called(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """With how many nodes have answered, and how many there are."""
    start(job, "waits")
    monkeypatch.setenv("RANKDBG_DIR", str(job.directory))
    calls: list[tuple[int, int]] = []
    with rankdbg.connect(job=job.name, progress=lambda *call: calls.append(call)) as connected:
        connected.ask("rank")
    assert calls.count((1, 1)) == 2  # the roster, and the question


def test_progress_can_end_a_question(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it raises comes out; the next question is answered, and not by the late answer."""
    start(job, "waits")
    monkeypatch.setenv("RANKDBG_DIR", str(job.directory))
    patient = [False]

    def progress(done: int, nodes: int) -> None:
        if not patient[0] and done < nodes:
            raise InterruptedError

    with rankdbg.connect(job=job.name, progress=progress) as connected:
        for _ in range(3):
            with pytest.raises(InterruptedError):
                connected.ask("rank")
        patient[0] = True
        assert connected.ask("6 * 7").as_json()["groups"][0]["value"] == "42"


def test_why_and_watch(job: Job, connected: JobConnection, tmp_path: Path) -> None:
    """why() names the culprit; watch() yields the same verdict on a job that hung before, and
    ends by itself."""
    start_demo(job, tmp_path)
    wait_for(lambda: connected.stacks(samples=2).odd)
    verdict = connected.why()
    assert verdict.stuck and verdict.as_json()["culprit"] == "5"
    assert verdict.summary() in verdict._repr_html_()
    table = verdict.to_pandas()
    assert list(table[table["culprit"]]["rank"]) == [5]
    assert list(connected.watch(hang_after=600, timeout=0.1)) == []
    hang = next(connected.watch(hang_after=0.5, poll_every=0.3, timeout=PATIENCE))
    assert hang.as_json()["cause"] == verdict.as_json()["cause"]


def test_watch_ends_with_the_connection(job: Job, connected: JobConnection) -> None:
    """close() in another thread ends it, however long it would have waited."""
    start(job, "waits")
    ended = threading.Event()

    def watch() -> None:
        assert list(connected.watch(poll_every=600)) == []
        ended.set()

    watching = threading.Thread(target=watch)
    watching.start()
    watching.join(0.5)
    connected.close()
    assert ended.wait(PATIENCE)


def test_watch_ends_with_the_job(job: Job, connected: JobConnection) -> None:
    """A job whose ranks are gone does not hang."""
    start(job, "waits", "waits")
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(
            list, connected.watch(hang_after=60, poll_every=0.2, timeout=PATIENCE)
        )
        for rank in connected.ranks:
            os.kill(rank.pid, signal.SIGKILL)
        assert watching.result(PATIENCE) == []


def test_several_jobs_have_to_be_told_apart(
    job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error says how, in Python's words."""
    start(job, "waits")
    monkeypatch.setenv("RANKDBG_DIR", str(job.directory))
    other = Job(f"other-{job.name}", tmp_path)
    try:
        start(other, "waits")
        with rankdbg.connect() as connected, pytest.raises(ChooseJob, match=r"connect\(job="):
            connected.stacks()
    finally:
        other.end()


def test_breaks_casts_and_stops(job: Job, connected: JobConnection) -> None:
    """Stop ranks at a line, look at a variable, let them go on."""
    program = PROGRAMS / "breaks.py"
    line = program.read_text().splitlines().index("    y = x * 2  # in double") + 1
    job.start(sys.executable, PROGRAMS / "launch.py", 2, program, "loops", "loops")
    job.wait_for(lambda ranks: len(ranks) == 2 and all(rank.agent for rank in ranks))
    place = f"breaks.py:{line}"
    assert connected.break_at(place, condition="x > 3").good
    wait_for(lambda: len(connected.stops().stops) == 2, lambda: connected.stops())
    outputs = connected.select("1").cast("p x > 3")
    assert [group for group, _ in outputs.groups] == [("True\n", "stopped")]
    assert "True" in outputs._repr_html_()
    assert connected.breaks().groups()
    assert connected.clear_breaks(place).good
    assert len(connected.cast("c").answered) == 2
    wait_for(lambda: not connected.stops().stops, lambda: connected.stops())


def test_collectives_logs_and_doctor(job: Job, connected: JobConnection, tmp_path: Path) -> None:
    """What ranks write, and what their recorders hold: here nothing of torch."""
    with (tmp_path / "out.log").open("w") as log:
        job.start_ranks("waits", "waits", stdout=log, stderr=subprocess.STDOUT)
        job.wait_at("waits", "waits")
        log.write(f"ValueError: {SCRIPT}\n")
    assert not connected.collectives().has_evidence
    logs = connected.logs(grep="ValueError")
    assert [fold.text for fold in logs.folds] == [f"ValueError: {SCRIPT}"]
    assert "<script" not in logs._repr_html_()
    assert list(logs.to_pandas()["text"]) == [f"ValueError: {SCRIPT}"]
    diagnosis = connected.doctor()
    assert diagnosis.as_json()["cluster"]["job"] == job.name
    assert "<script" not in diagnosis._repr_html_()


def test_a_profile(job: Job, connected: JobConnection, tmp_path: Path) -> None:
    """One for all ranks, with its files in the folder that was named."""
    start(job, "waits", "waits")
    profile = connected.profile(1.0, output=tmp_path / "profile")
    assert len(profile.profiles) == 2
    assert (tmp_path / "profile" / "flame.html").exists()
    assert {"rank", "function", "share"} <= {*profile.to_pandas().columns}
    with pytest.raises(BadInput, match="already exists"):
        connected.profile(1.0, output=tmp_path / "profile")


def test_without_pandas_one_clear_error(
    job: Job, connected: JobConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """to_pandas() says what is missing; records() are the same without it."""
    start(job, "waits")
    monkeypatch.setitem(sys.modules, "pandas", None)
    answers = connected.ask("rank")
    with pytest.raises(RankdbgError, match="needs pandas"):
        answers.to_pandas()
    assert [record["value"] for record in answers.records()] == [0]
