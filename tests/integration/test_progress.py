"""What `rankdbg why` takes for progress in real processes: to be served is, to wake up is not."""

from __future__ import annotations

import contextlib
import ctypes.util
import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobs import PROGRAMS, Job
from tiers import also_without, chiefly
from waiting import PATIENCE, wait_for

# Of rank 0, which looks again and again whether rank 1 has come.
WAKES_UP = [
    "event", "queue_get", "future", "select_loop", "sleep", "join", "heartbeats",
    "heartbeats_of_an_event_loop",
]  # fmt: skip
# Of rank 1, for which rank 0 waits; and what it may be called.
HOLDS_UP = {"silent_server": "waits-for-network", "empty_queue": "waits-for-queue"}
AT_WORK = ["download", "full_queue", "read_in_pieces", "write_checkpoint"]


@contextlib.contextmanager
def waiting_job(job: Job, kind: str, agent: bool) -> Iterator[Job]:
    launcher, program = PROGRAMS / "launch.py", PROGRAMS / "waits.py"
    process = job.start(sys.executable, launcher, "2", program, kind, agent=agent)
    ready = [process.stdout.readline() for _ in range(2)]
    assert all(line for line in ready), process.stderr.read()
    # Heartbeats would fill the pipe.
    threading.Thread(target=process.stdout.read, daemon=True).start()
    yield job


def why(job: Job, *options: str) -> Any:
    result = job.cli("why", "--json", "--longest", "20", *options)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def verdicts(job: Job, kind: str, agent: bool, state: str = "") -> Iterator[tuple[Any, str]]:
    """With the agents and without asking them, or where there are none; asked until the job is
    in this state, or called stuck: while others take the processors, a rank that wakes up may seem
    to compute."""
    with waiting_job(job, kind, agent):
        for options in ((), ("--outside",)) if agent else ((),):
            verdict = why(job, *options)
            until = time.monotonic() + PATIENCE
            while state and verdict["state"] not in (state, "stuck") and time.monotonic() < until:
                verdict = why(job, *options)
            yield verdict, json.dumps(verdict, indent=1)


with_and_without = pytest.mark.parametrize("agent", [True, False], ids=["agent", "outside"])


@also_without
@pytest.mark.parametrize("kind", chiefly(WAKES_UP[:4] + WAKES_UP[-1:], WAKES_UP))
def test_wait_that_wakes_up_to_look_again(job: Job, kind: str, agent: bool) -> None:
    """Is no progress: the job is stuck, by the rank that waits for a lock."""
    for verdict, said in verdicts(job, kind, agent, "stuck"):
        assert verdict["stuck"], said
        assert verdict["culprit"] == "1", said
        assert verdict["cause"] in ("waits-for-lock", "lock-cycle"), said


@with_and_without
def test_wait_that_is_served(job: Job, agent: bool) -> None:
    """The twin: messages end the wait, long before its timer does."""
    for verdict, said in verdicts(job, "steps", agent):
        assert verdict["state"] == "moving", said
        proofs = [proof for row in verdict["ranks"] for proof in row["progress"]]
        assert any("woken" in proof or "stack" in proof for proof in proofs), said


@also_without
@pytest.mark.parametrize("kind", HOLDS_UP)
def test_rank_whose_waits_time_out(job: Job, kind: str, agent: bool) -> None:
    """What never arrives holds the job up, however often the rank looks."""
    for verdict, said in verdicts(job, kind, agent, "stuck"):
        assert verdict["stuck"], said
        assert (verdict["culprit"], verdict["cause"]) == ("1", HOLDS_UP[kind]), said


@also_without
@pytest.mark.parametrize("kind", AT_WORK)
def test_rank_that_is_supplied(job: Job, kind: str, agent: bool) -> None:
    """The twins: data that arrives, is read or is written, a little at a time."""
    for verdict, said in verdicts(job, kind, agent):
        assert not verdict["stuck"], said


@with_and_without
def test_server_in_another_thread(job: Job, agent: bool) -> None:
    """Its main thread waits, and wakes up: it is idle, and not stuck."""
    for verdict, said in verdicts(job, "serve_in_thread", agent, "idle"):
        assert verdict["state"] == "idle", said


MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
needs_mpi = pytest.mark.skipif(
    shutil.which("mpirun") is None or ctypes.util.find_library("mpi") is None,
    reason="needs openmpi-bin",
)


def verdict_on_mpi(job: Job, kind: str, agent: bool, until: Callable[[Any], bool]) -> Any:
    """The first verdict that is as expected: a rank that has said that it is ready may need a
    while to get to its line, since the others poll and take the processors."""
    program = PROGRAMS / "mpi_waits.py"
    process = job.start(*MPIRUN, sys.executable, program, kind, agent=agent)
    ready = [process.stdout.readline() for _ in range(2)]
    assert all(line for line in ready), process.stderr.read()
    seen: list[Any] = []

    def as_expected() -> bool:
        seen[:] = [why(job)]
        return until(seen[0])

    wait_for(as_expected, lambda: seen)
    return seen[0]


@needs_mpi
@also_without
def test_rank_that_polls_in_mpi(job: Job, agent: bool) -> None:
    """It takes a processor and waits nevertheless, for the rank that has not come."""
    verdict = verdict_on_mpi(job, "stuck", agent, lambda verdict: verdict["stuck"])
    assert verdict["culprit"] == "1", verdict
    assert verdict["waiting"] == "0", verdict


@pytest.mark.extra
@needs_mpi
@also_without
def test_all_ranks_poll_in_mpi(job: Job, agent: bool) -> None:
    """The job is stuck, and the lines at which its ranks wait are shown."""

    def all_in_one_place(verdict: Any) -> bool:
        return verdict["stuck"] and len(verdict["ranks"]) == 1

    (row,) = verdict_on_mpi(job, "receive", agent, all_in_one_place)["ranks"]
    assert row["ranks"] == "0-1", row
    assert row["where"]["function"] == "receive", row


@needs_mpi
@also_without
def test_steps_between_polls_of_mpi(job: Job, agent: bool) -> None:
    """The twin: rank 0 is always found in the same barrier, but its step is another one."""
    verdict = verdict_on_mpi(job, "steps", agent, lambda verdict: verdict["state"] != "starting")
    assert verdict["state"] == "moving", verdict
