"""`why` at a rank whose event loop has nothing to run: from task to task, up to the one that holds it up."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import chains
from chains import verdict_when, why
from jobs import Job

pytestmark = [pytest.mark.slow]


def steps(verdict: Any) -> list[str]:
    """What is waited for, and by whom that is owed, without lines and numbers."""
    texts = [f"{link['what']} {link['whom']}" for link in verdict["chain"]]
    return [re.sub(r"\d+", "N", re.sub(r" \([^()]*\.py:\d+\)", "", text)) for text in texts]


MAIN = "waits for task main (Task-N)"
SLEEP = "pid N (sleep N)"
OF_PYTHON = re.sub(r"\d+", "N", f"pid N ({Path(sys.executable).name} -c ")


@pytest.mark.parametrize(
    ("kind", "cause", "expected"),
    [
        (
            "lock_of_a_task",
            "event-loop-awaits",
            [
                MAIN,
                "waits for task step",
                "waits for the lock self.lock, held by task save",
                "waits for the future, set by no known task or thread",
            ],
        ),
        (
            "locks_in_different_orders",
            "lock-cycle",
            [
                MAIN,
                "waits for the lock self.other, held by task save",
                "waits for the lock self.lock, held by task main (Task-N)",
            ],
        ),
        (
            "thread_of_a_pool",
            "event-loop-awaits",
            [MAIN, "waits for a task, run by thread asyncio_N"],
        ),
        (
            "child",
            "event-loop-awaits",
            [
                MAIN,
                "waits for the end of a child, through thread asyncio-waitpid-N",
                f"waits for the end of {SLEEP}",
            ],
        ),
        ("stream", "event-loop-awaits", [MAIN, f"waits at a pipe for {OF_PYTHON}"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_chain_of_tasks(job: Job, kind: str, cause: str, expected: list[str]) -> None:
    chains.start(job, 2, "awaits.py", kind, agent=True)
    seen: list[str] = []

    def as_expected(verdict: Any) -> bool:
        seen[:] = steps(verdict)
        if sys.version_info >= (3, 12):  # the loop itself watches its children there
            wanted = [step for step in expected if "waitpid" not in step]
        else:
            wanted = expected
        return len(seen) == len(wanted) and all(map(str.startswith, seen, wanted))

    verdict = verdict_when(job, as_expected)
    assert (verdict["culprit"], verdict["waiting"]) == ("1", "0"), verdict
    assert verdict["cause"] == cause, verdict


def test_tasks_in_a_circle_of_a_rank_without_others(job: Job, tmp_path: Path) -> None:
    """An event loop that waits is idle; but these tasks can never go on. `stacks --tasks` shows them,
    and so does a snapshot."""
    chains.start(job, 1, "awaits.py", "alone-locks_in_different_orders", agent=True)
    verdict = verdict_when(job, lambda verdict: verdict["stuck"])
    assert (verdict["culprit"], verdict["cause"]) == ("0", "lock-cycle"), verdict
    awaited = {
        "task main": "the lock self.other, held by task save",
        "task save": "the lock self.lock, held by task main",
    }
    assert stacks_of_tasks(job) == awaited
    assert job.cli("save", tmp_path / "saved").returncode == 0
    assert stacks_of_tasks(job, "-t", f"snapshot:{tmp_path / 'saved'}") == awaited


def stacks_of_tasks(job: Job, *words: str) -> dict[str, str]:
    """What each awaits, as `stacks --tasks` has it."""
    result = job.cli("stacks", "--tasks", "--json", *words)
    assert result.returncode == 0, result.stderr
    groups = json.loads(result.stdout)["groups"]
    return {group["thread"]: group["awaits"] for group in groups if "awaits" in group}


def test_tasks_without_work(job: Job) -> None:
    """The twin: they wait for each other at queues, as the tasks of an idle server do."""
    chains.start(job, 1, "awaits.py", "alone-two_queues_without_work", agent=True)
    verdict = why(job)
    assert (verdict["stuck"], verdict["state"]) == (False, "idle"), json.dumps(verdict)


def test_stream_from_outside(job: Job) -> None:
    """Without an agent no task is known, but what the loop waits for is."""
    chains.start(job, 2, "awaits.py", "stream", agent=False)
    verdict = verdict_when(job, lambda verdict: verdict["chain"])
    assert verdict["culprit"] == "1", verdict
    (step,) = steps(verdict)
    assert step.startswith(f"waits at a pipe for {OF_PYTHON}"), step


@pytest.mark.parametrize(
    ("kind", "agent"),
    [("lock_of_a_task", True), ("thread_of_a_pool", True), ("child", True), ("stream", False)],
)
def test_what_is_awaited_comes(job: Job, kind: str, agent: bool) -> None:
    """The twins: nobody is accused."""
    chains.start(job, 2, "awaits.py", f"served-{kind}", agent=agent)
    verdict = why(job)
    assert not verdict["stuck"], json.dumps(verdict)
    assert not verdict["chain"], verdict
