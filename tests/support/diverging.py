"""Jobs whose replicas are compared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs import Job
from waiting import wait_for


def start(job: Job, program: object, ranks: int, *words: object) -> None:
    """And wait until all ranks train."""
    pytest.importorskip("torch", reason="needs torch")
    job.start_torch(ranks, program, *words)
    reached(job, 6, ranks)


def reached(job: Job, step: int, ranks: int) -> None:
    told = lambda: [rank.step for rank in job.ranks()]  # noqa: E731
    wait_for(
        lambda: len(steps := told()) == ranks and min(s or 0 for s in steps) > step,
        told,
    )


def diverge(job: Job, *words: str) -> tuple[int, Any]:
    result = job.cli("diverge", "--json", *words)
    assert result.returncode in (0, 1), result.stderr
    found = json.loads(result.stdout)
    assert found["no_response"] == [], found["no_response"]
    return result.returncode, found


def wait_until_odd(job: Job) -> Any:
    """What --first says as soon as the program does it."""
    last: list[Any] = []

    def odd() -> Any:
        last[:] = [diverge(job, "--first")[1]["first"]]
        return last[0] if last[0]["operator"] else None

    return wait_for(odd, lambda: last)
