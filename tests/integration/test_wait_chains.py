"""`why` follows a wait to whoever owes it: another rank, a child, a process of somebody else."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import chains
from chains import verdict_when, why, with_and_without
from jobs import Job
from tiers import also_without, extra

pytestmark = [pytest.mark.slow]


def start(job: Job, kind: str, folder: Path, agent: bool) -> None:
    chains.start(job, 3, "owes.py", kind, folder, agent=agent)


@also_without
def test_rank_that_does_not_send(job: Job, tmp_path: Path, agent: bool) -> None:
    """Rank 1 waits at a socket: not it, but the rank at its other end holds the job up."""
    start(job, "connection", tmp_path, agent)
    verdict = verdict_when(job, lambda verdict: verdict["chain"])
    assert (verdict["culprit"], verdict["waiting"]) == ("2", "0-1"), verdict
    assert verdict["cause"] in ("waits-for-lock", "lock-cycle"), verdict
    link, *behind = verdict["chain"]
    assert (link["who"], link["whom"]) == ("rank 1", "rank 2"), link
    held = [each["whom"].split(" (")[0] for each in behind]
    assert held == (["its main thread"] if agent else []), behind
    assert link["what"].startswith("waits at a socket to 127.0.0.1:"), link


@pytest.mark.parametrize(
    ("kind", "agent"),
    [
        ("sleeps", True),
        ("sleeps", False),
        ("sleeps_beside_events", False),
        pytest.param("sleeps_beside_events", True, marks=extra),
        pytest.param("locks", True, marks=extra),
        pytest.param("locks", False, marks=extra),
    ],
)
def test_ranks_in_a_plain_receive(job: Job, tmp_path: Path, kind: str, agent: bool) -> None:
    """They wait for the rank at the other end of their sockets, whatever their functions are called."""
    chains.start(job, 4, "receives.py", kind, tmp_path, agent=agent)
    verdict = verdict_when(job, lambda verdict: verdict["stuck"])
    assert (verdict["culprit"], verdict["waiting"]) == ("1", "0,2-3"), verdict
    link = verdict["chain"][0]
    assert (link["who"], link["whom"]) == ("rank 0", "rank 1"), verdict


@pytest.mark.parametrize(
    ("kind", "agent"), [("serves", False), pytest.param("serves", True, marks=extra)]
)
def test_ranks_of_an_idle_server(job: Job, tmp_path: Path, kind: str, agent: bool) -> None:
    """The twin: another thread of the rank that sleeps waits for their requests."""
    chains.start(job, 4, "receives.py", kind, tmp_path, agent=agent)
    verdict = verdict_when(job, lambda verdict: verdict["state"] == "idle" or verdict["stuck"])
    assert not verdict["stuck"], verdict


HELD_UP = {
    "reader_is_stopped": ("waits-for-pipe", "sleep 3600"),
    "child_waits_for_it": ("wait-circle", "rank 2"),
    "lock_of_a_dead_process": ("waits-for-processes", "rank 2"),
    "polls": ("sleeping", "rank 2"),
}


@pytest.mark.parametrize(
    ("kind", "agent"),
    [
        ("reader_is_stopped", False),
        ("child_waits_for_it", True),
        ("lock_of_a_dead_process", True),
        ("polls", False),
        pytest.param("reader_is_stopped", True, marks=extra),
        pytest.param("child_waits_for_it", False, marks=extra),
        pytest.param("lock_of_a_dead_process", False, marks=extra),
        pytest.param("polls", True, marks=extra),
    ],
)
def test_rank_that_owes_its_part(job: Job, tmp_path: Path, kind: str, agent: bool) -> None:
    """Ranks average over sockets of their own. The rank whose number is missing is the culprit,
    although it waits for something outside of the job, too, and the others only for each other."""
    chains.start(job, 4, "averages.py", kind, tmp_path, agent=agent)
    verdict = verdict_when(job, lambda verdict: verdict["stuck"])
    cause, end = HELD_UP[kind]
    assert (verdict["culprit"], verdict["waiting"]) == ("2", "0-1,3"), verdict
    assert verdict["cause"] == cause, verdict
    assert end in verdict["chain"][-1]["whom"], verdict["chain"]


@pytest.mark.parametrize(
    ("kind", "agent"),
    [
        ("idle_workers", True),
        ("idle_stages", False),
        ("between_two_pauses", False),
        pytest.param("idle_workers", False, marks=extra),
        pytest.param("idle_stages", True, marks=extra),
        pytest.param("between_two_pauses", True, marks=extra),
    ],
)
def test_rank_that_owes_nothing(job: Job, tmp_path: Path, kind: str, agent: bool) -> None:
    """The twins: ranks without work, in a star and in a row, and one that works slowly."""
    chains.start(job, 4, "averages.py", kind, tmp_path, agent=agent)
    resting = "moving" if kind == "between_two_pauses" else "idle"
    verdict = verdict_when(job, lambda each: each["state"] == resting or each["stuck"])
    assert not verdict["stuck"], verdict


@with_and_without
def test_lock_of_a_stranger(job: Job, tmp_path: Path, agent: bool) -> None:
    """A process that is none of the job's holds it: its pid and command are told."""
    start(job, "lock_of_a_file", tmp_path, agent)
    verdict = verdict_when(job, lambda verdict: verdict["chain"])
    (link,) = verdict["chain"]
    holder = int(link["whom"].split()[1])
    try:
        assert verdict["culprit"] == "1", verdict
        assert link["what"] == f"waits for the lock of {tmp_path}/index.lock, held by", link
        assert link["whom"].startswith(
            f"pid {holder} ({Path(sys.executable).name} -c import fcntl"
        ), link
        assert verdict["next"] == f"look at the holder: ps -fp {holder}", verdict
        shown = " ".join(job.cli("why").stdout.split())
        assert "chain rank 1 → the lock of " in shown, shown
        assert f"held by pid {holder} " in shown, shown
    finally:
        os.kill(holder, signal.SIGKILL)


@contextlib.contextmanager
def mounted_below(folder: Path) -> Iterator[None]:
    """A file system that its server leaves behind is unmounted."""
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder / "data"], check=False, capture_output=True)


needs_fuse = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs FUSE"
)


@needs_fuse
@with_and_without
def test_file_system_that_does_not_answer(job: Job, tmp_path: Path, agent: bool) -> None:
    """Its mount and the process that serves it, and nothing that asks it blocks."""
    with mounted_below(tmp_path):
        start(job, "file_system", tmp_path, agent)
        verdict = verdict_when(job, lambda verdict: verdict["chain"])
        assert verdict["culprit"] == "1", verdict
        (link,) = verdict["chain"]
        expected = f"waits for the file system {tmp_path}/data (fuse.filer), served by"
        assert link["what"] == expected, link
        assert "fuse_server.py" in link["whom"], link
        assert verdict["next"].startswith("look at the process that serves it: ps -fp "), verdict
        job.end()


@needs_fuse
@with_and_without
def test_file_system_that_is_slow(job: Job, tmp_path: Path, agent: bool) -> None:
    """The twin: what is read comes, a piece at a time."""
    with mounted_below(tmp_path):
        start(job, "served-file_system", tmp_path, agent)
        verdict = why(job)
        assert not verdict["stuck"], json.dumps(verdict)
        job.end()


def test_child_that_writes_nothing(job: Job, tmp_path: Path) -> None:
    start(job, "pipe_of_a_child", tmp_path, agent=False)
    verdict = verdict_when(job, lambda verdict: verdict["chain"])
    assert verdict["culprit"] == "1", verdict
    (link,) = verdict["chain"]
    assert link["what"] == "waits at a pipe for", link
    assert link["whom"].startswith("pid "), link


@pytest.mark.extra
def test_thread_that_holds_a_lock(job: Job, tmp_path: Path) -> None:
    """From rank 1 to its thread, from there to the rank from which that receives."""
    start(job, "lock_of_a_thread", tmp_path, agent=True)
    verdict = verdict_when(job, lambda verdict: len(verdict["chain"]) == 3)
    assert (verdict["culprit"], verdict["waiting"]) == ("2", "0-1"), verdict
    first, second, _ = verdict["chain"]
    assert first["who"] == "rank 1", first
    assert first["what"] == "waits for the lock self._lock, held by", first
    assert first["whom"].startswith("thread Prefetch (prefetch owes.py:"), first
    assert first["evidence"][0].startswith("thread Prefetch is inside `with self._lock` ("), first
    assert second["what"].startswith("waits at a socket to 127.0.0.1:"), second
    assert second["whom"] == "rank 2", second
    check_graph(job, tmp_path)


@also_without
def test_thread_that_holds_a_mutex(job: Job, tmp_path: Path, agent: bool) -> None:
    """One of C: from rank 1 to its thread, from there to the rank from which that receives. Its
    memory tells that, with an agent or without."""
    start(job, "mutex_of_a_thread", tmp_path, agent)
    verdict = verdict_when(job, lambda verdict: len(verdict["chain"]) >= 2)
    assert (verdict["culprit"], verdict["waiting"]) == ("2", "0-1"), verdict
    first, second, *_ = verdict["chain"]
    assert (first["who"], first["what"]) == ("rank 1", "waits for a mutex, held by"), first
    assert first["whom"].startswith("thread Prefetch ("), first
    assert re.match("the mutex at 0x.* has thread .* as its owner", first["evidence"][0]), first
    assert second["what"].startswith("waits at a socket to 127.0.0.1:"), second
    assert second["whom"] == "rank 2", second


def check_graph(job: Job, folder: Path) -> None:
    """In the terminal, after the verdict; and as files."""
    result = job.cli("why", "--longest", "20", "--graph")
    graph = result.stdout[result.stdout.index("\n\nrank 1\n") :]
    steps = re.findall(
        r"^(rank \d|thread Prefetch)|^│ the (lock)|^│ a (socket)", graph, re.MULTILINE
    )
    assert ["".join(step) for step in steps] == [
        *("rank 1", "lock", "thread Prefetch", "socket", "rank 2", "lock", "rank 2"),
        *("rank 0", "rank 2"),
    ], graph
    for name in ("waits.svg", "waits.dot"):
        result = job.cli("why", "--longest", "20", "--graph", folder / name)
        assert result.stderr == f"drawn: {folder / name}\n", result.stderr
        assert "thread Prefetch (prefetch owes.py:" in (folder / name).read_text()


def test_graph_that_cannot_be_drawn(job: Job) -> None:
    """Refused before any rank is looked at."""
    for words in (("--graph", "0-3"), ("--graph", "waits.png"), ("--json", "--graph")):
        result = job.cli("why", *words)
        assert result.returncode == 2, result
        assert result.stderr.startswith("error: "), result.stderr


@pytest.mark.extra
def test_chain_in_a_snapshot(job: Job, tmp_path: Path) -> None:
    """Each question about owners and threads has its own answer there."""
    start(job, "lock_copied_by_a_fork", tmp_path, agent=True)
    verdict_when(job, lambda verdict: len(verdict["chain"]) == 2)
    saved = job.cli("why", "--json", "--longest", "20", "--save", tmp_path / "saved")
    again = job.cli("why", "--json", "--longest", "20", "-t", f"snapshot:{tmp_path / 'saved'}")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["chain"] == json.loads(saved.stdout)["chain"]


@pytest.mark.parametrize(
    ("kind", "agent", "lock"),
    [("lock", True, "the lock self._lock"), ("mutex", False, "a mutex")],
    ids=["lock", "mutex"],
)
def test_lock_copied_by_a_fork(job: Job, tmp_path: Path, kind: str, agent: bool, lock: str) -> None:
    """The child waits for a lock that no thread of it holds."""
    start(job, f"{kind}_copied_by_a_fork", tmp_path, agent)
    verdict = verdict_when(job, lambda verdict: len(verdict["chain"]) == 2)
    assert verdict["culprit"] == "1", verdict
    child, held = verdict["chain"]
    assert child["what"] == "waits for the end of", child
    assert held["what"] == f"waits for {lock}, held by", held
    assert "forked" in held["whom"], held
    assert verdict["cause"] == "fork-with-lock", verdict


@pytest.mark.parametrize(
    ("kind", "cause", "agent"),
    [
        ("fork event", "waits-for-thread", True),
        ("fork lock", "waits-for-processes", True),
        ("forkserver event", "waits-for-thread", True),
        pytest.param("fork event", "waits-for-thread", False, marks=extra),
        pytest.param("fork lock", "waits-for-processes", False, marks=extra),
        pytest.param("forkserver event", "waits-for-thread", False, marks=extra),
    ],
)
def test_child_that_waits_for_what_no_fork_has_copied(
    job: Job, kind: str, cause: str, agent: bool
) -> None:
    """The twins: the child is forked and waits in the same system call, or the fork server has forked
    it."""
    chains.start(job, 2, "waits_for_fork.py", kind, agent=agent)
    verdict = verdict_when(job, lambda verdict: verdict["stuck"])
    assert (verdict["culprit"], verdict["cause"]) == ("1", "waits-for-child"), verdict
    assert verdict["findings"][0]["child"]["cause"] == cause, verdict


@pytest.mark.parametrize(
    ("kind", "agent"),
    [("locks_in_different_orders", True), ("mutexes_in_different_orders", False)],
)
def test_two_threads_in_a_circle(job: Job, tmp_path: Path, kind: str, agent: bool) -> None:
    start(job, kind, tmp_path, agent)
    verdict = verdict_when(job, lambda verdict: len(verdict["chain"]) == 2)
    assert (verdict["culprit"], verdict["cause"]) == ("1", "lock-cycle"), verdict
    there, back = verdict["chain"]
    assert there["whom"].startswith("thread Writer ("), there
    assert back["whom"].startswith("its main thread ("), back


@pytest.mark.parametrize(
    ("kind", "agent"),
    [
        ("connection", False),
        ("pipe_of_a_child", True),
        ("lock_of_a_thread", True),
        ("mutex_of_a_thread", False),
        ("lock_of_a_file", False),
        ("locks_in_different_orders", True),
        ("end_of_a_child", False),
    ],
)
def test_what_is_owed_comes(job: Job, tmp_path: Path, kind: str, agent: bool) -> None:
    """The twins: nobody is accused."""
    start(job, f"served-{kind}", tmp_path, agent)
    verdict = why(job)
    assert not verdict["stuck"], json.dumps(verdict)
    assert not verdict["chain"], verdict
