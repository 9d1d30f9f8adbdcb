"""`why` at a rank for which others wait, and that waits for something that gets no processor."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chains import verdict_when
from jobs import PROGRAMS, Job
from starving import WithoutProcessor, without_processor
from tiers import extra

pytestmark = [pytest.mark.slow]
KINDS = ("thread", "child", "stranger", "rank")
# A thread is seen by its agent; the others look the same from outside.
CASES = [
    pytest.param(
        kind,
        agent,
        marks=[] if agent is (kind == "thread") else [extra],
        id=f"{kind}-{'agent' if agent else 'outside'}",
    )
    for kind in KINDS
    for agent in (True, False)
]
each_kind = pytest.mark.parametrize(("kind", "agent"), CASES)


@pytest.fixture
def starves() -> Iterator[WithoutProcessor]:
    with without_processor() as group:
        yield group


def start(job: Job, folder: Path, kind: str, agent: bool) -> int:
    """The number of the thread or process that owes something."""
    (folder / "pipes").mkdir()
    os.mkfifo(folder / "pipes" / "owed")
    program = PROGRAMS / "gets_no_processor.py"
    words = (PROGRAMS / "launch.py", 2, program, kind, folder / "pipes")
    process = job.start(sys.executable, *words, agent=agent)
    lines = [process.stdout.readline() for _ in range(2)]
    threading.Thread(target=process.stdout.read, daemon=True).start()
    ranks = {rank.number: rank.pid for rank in job.wait_for(lambda ranks: len(ranks) == 2)}
    (owes,) = {int(line.split()[1]) for line in lines} - {ranks[0]}
    return owes


@each_kind
def test_what_gets_no_processor(
    job: Job, tmp_path: Path, starves: WithoutProcessor, kind: str, agent: bool
) -> None:
    """No rank is accused; who waits for a processor is named."""
    owes = start(job, tmp_path, kind, agent)
    add = starves.add if kind == "thread" else starves.add_process
    add(owes)

    def is_named(verdict: Any) -> bool:
        assert not verdict["stuck"], json.dumps(verdict)
        return "for a processor" in verdict["says"]

    verdict_when(job, is_named)


@each_kind
def test_what_does_not_want_one(
    job: Job, tmp_path: Path, starves: WithoutProcessor, kind: str, agent: bool
) -> None:
    """The twin: it would get none, but sleeps, or waits for a lock."""
    owes = start(job, tmp_path, f"hangs-{kind}", agent)
    starves.add(owes)
    verdict = verdict_when(job, lambda verdict: verdict["stuck"])
    assert verdict["culprit"] == "1", verdict
