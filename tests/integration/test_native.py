"""Frames of C and Python in one stack, threads that are not Python's, and who has the GIL."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job, rankdbg
from rankdbg.investigations.stacks.reading_stacks import suspects
from rankdbg.session import Session
from rankdbg.types import Rank, Sampled
from waiting import wait_for


def functions(document: Any, thread: str, rank: str) -> list[str]:
    """The frames of that thread of a rank, innermost first; of several, the deepest."""
    stacks = [
        [frame["function"] for frame in group["frames"]]
        for group in document["groups"]
        if group["thread"] == thread and group["ranks"] == rank
    ]
    return max(stacks, key=len, default=[])


@pytest.mark.slow
def test_a_gloo_job_that_hangs(job: Job, tmp_path: Path) -> None:
    """The call of torch in which a rank waits stands below its line of Python, gloo's own
    thread shows what it waits for, and a snapshot tells the same."""
    pytest.importorskip("torch", reason="needs torch")
    job.start_torch(2, PROGRAMS / "native_torch.py")

    def both_wait() -> Any:
        result = job.cli("stacks", "--json")
        groups = json.loads(result.stdout)["groups"] if result.returncode == 0 else []
        deepest = {group["ranks"]: group["frames"][0]["function"] for group in groups}
        return deepest == {"0": "all_reduce", "1": "Condition.wait"}

    wait_for(both_wait, "rank 0 in all_reduce, rank 1 elsewhere", 120)
    document = job.json("stacks", "--native", "--save", tmp_path / "saved")
    assert document["sources"] == {"0": "pystack", "1": "pystack"}
    assert document["samples"] == 2
    stack = functions(document, "main thread", "0")
    wait, call, step = map(stack.index, ("c10d::Work::wait", "all_reduce", "train_step"))
    assert 0 < wait < call < step
    assert stack[0].startswith("pthread_cond_")
    assert stack[-1] == "<module>"
    assert not any(name.startswith(("_Py", "pybind11", "Py_Run")) for name in stack)
    gloo = functions(document, "pt_gloo_runloop", "0")
    assert "gloo::transport::tcp::UnboundBuffer::waitRecv" in gloo
    assert gloo[-1] == "c10d::ProcessGroupGloo::runLoop"
    job.wait_for(lambda ranks: [rank.state for rank in ranks] == ["running"] * 2)
    saved = rankdbg("stacks", "-t", f"snapshot:{tmp_path / 'saved'}", "--native", "--json")
    assert json.loads(saved.stdout)["groups"] == document["groups"]
    text = rankdbg("stacks", "-t", f"snapshot:{tmp_path / 'saved'}", "--native").stdout
    assert all(len(line) <= 80 for line in text.splitlines())


def test_names_are_those_of_the_other_engines(job: Job) -> None:
    """Threads and methods have the same names as from the agent, so that stacks of different
    engines are one tree; the agent's own threads are not shown."""
    job.start_ranks("with_threads")
    job.wait_at("with_threads")
    inside = job.json("stacks", "--threads", "all")
    native = job.json("stacks", "--native")
    threads = [tree["thread"] for tree in inside["tree"]]
    assert [tree["thread"] for tree in native["tree"]] == threads
    for thread in threads:
        lines = functions(inside, thread, "0")
        with_native = functions(native, thread, "0")
        assert with_native[-len(lines) :] == lines
        assert with_native[0].startswith(("sem_", "pthread_", "futex_"))


@pytest.mark.slow
def test_gdb(job: Job) -> None:
    """Frames of C from gdb, of Python from py-spy, in one stack."""
    if not shutil.which("gdb"):
        pytest.skip("needs gdb")
    job.start_ranks("waits")
    job.wait_at("waits")
    document = job.json("stacks", "--gdb")
    assert document["sources"] == {"0": "gdb"}
    assert document["samples"] == 1
    stack = functions(document, "main thread", "0")
    assert stack[-4:] == ["Condition.wait", "Event.wait", "waits", "<module>"]
    assert not stack[0].startswith(("Condition", "_PyEval"))


@pytest.mark.slow
def test_who_holds_the_gil(job: Job) -> None:
    """The thread that holds it in all samples from outside, and those that wait for it; stacks
    that differ in nothing else are equal."""
    job.start_ranks("thread_holds_gil", "thread_holds_gil")
    job.wait_for(lambda ranks: len(ranks) == 2 and all(rank.state == "blocked" for rank in ranks))
    with job.session() as session:
        ranks = session.job(job.name)
        seen = held_in_both(session, ranks, (), samples=2)
        assert [sampled.source for sampled in seen] == ["py-spy"] * 2
        native = held_in_both(session, ranks, ("MainThread",), threads="all", engine="native")
        assert native[0].samples == native[1].samples
        (waiting,) = native[0].main()
        assert "take_gil" in [frame.function for frame in waiting.frames]
    text = job.cli("stacks", "--native").stdout
    assert "0-1: holder holds the GIL, MainThread waits for it" in text


def held_in_both(
    session: Session, ranks: list[Rank], waiting: tuple[str, ...], **settings: Any
) -> list[Sampled]:
    """What is seen, as soon as the holder has the GIL in both: an agent that gets no processor
    for a while makes a rank "blocked" before that."""
    last: list[Any] = []

    def look() -> list[Sampled] | None:
        seen, silent = session.stacks(ranks, **settings)
        last[:] = [(s.rank.number, s.source, s.gil, s.waits_for_gil) for s in seen] + silent
        held = [(s.gil, s.waits_for_gil) for s in seen] == [("holder", waiting)] * 2
        return seen if held and not silent else None

    return wait_for(look, lambda: last)


def test_nobody_holds_the_gil(job: Job) -> None:
    """Where all wait, nobody is named."""
    job.start_ranks("waits")
    job.wait_at("waits")
    document = job.json("stacks", "--outside")
    assert document["gil"] == {}
    assert document["sources"] == {"0": "py-spy"}


def test_suspects(job: Job) -> None:
    """All but the largest group; if there is only one, its lowest rank."""
    job.start_ranks("waits", "waits", "waits_elsewhere", "waits")
    job.wait_at("waits", "waits", "waits_elsewhere", "waits")

    def numbers(session: Session, ranks: list[Rank]) -> list[int | None]:
        return [rank.number for rank in suspects(session.stacks(ranks)[0])]

    with job.session() as session:
        ranks = sorted(session.job(job.name), key=lambda rank: rank.number or 0)
        assert numbers(session, ranks) == [2]
        assert numbers(session, [ranks[1], ranks[3]]) == [1]
        assert numbers(session, []) == []


def test_cuda_without_cuda_gdb(job: Job) -> None:
    """The reason is given for the suspect alone, and all ranks are shown."""
    if shutil.which("cuda-gdb"):
        pytest.skip("cuda-gdb is here")
    job.start_ranks("waits", "waits_elsewhere", "waits")
    job.wait_at("waits", "waits_elsewhere", "waits")
    document = job.stacks_seen_by({"0": "agent", "1": "py-spy", "2": "agent"}, "--cuda")
    assert document["why"].keys() == {"1"}
    assert document["why"]["1"].startswith("no cuda-gdb: cuda-gdb not found")
    assert job.json("stacks", "--cuda=all")["why"].keys() == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cuda", "3"], "ranks go first: rankdbg stacks 3 --cuda"),
        (["--native", "--gdb"], "not allowed with"),
        (["--exe", "python"], "--exe needs --core"),
        (["--core", "x", "--job", "y"], "--core reads files and does not take --job"),
    ],
)
def test_bad_input(words: list[str], said: str) -> None:
    """One sentence and exit status 2."""
    result = rankdbg("stacks", *words)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
