"""`why` and `doctor` agree: logs as evidence for a hang, a hang in doctor, logs of the dead."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hanging import HangingJob, Start
from jobs import Job
from torch_ranks import needs_torch

pytestmark = [needs_torch, pytest.mark.slow]


@pytest.fixture
def hanging(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HangingJob]:
    job = HangingJob(Start(request.param, ranks="3"), tmp_path / "job")
    try:
        job.wait()
        yield job
    finally:
        job.end()


def doctor(job: Job) -> Any:
    result = job.cli("doctor", "--json")
    assert result.returncode in (0, 1), result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("hanging", ["retrying"], indirect=True)
def test_hang_with_what_the_culprit_has_logged(hanging: HangingJob, tmp_path: Path) -> None:
    """An exception that it has caught and its retries are evidence; secrets are masked; and doctor
    names the same culprit. What was asked before the logs were read is saved too."""
    saved = tmp_path / "saved"
    found = hanging.why("--longest", "40", "--save", str(saved))
    assert hanging.job.json("why", "-t", f"snapshot:{saved}")["culprit"] == "2"
    told = "\n".join(found["evidence"])
    assert found["culprit"] == "2"
    assert "rank 2 logged an exception" in told and "rank 2 retries: 4 times" in told
    assert "attempt 4" in told and "hunter" not in told
    said = doctor(hanging.job)
    assert (said["hang"]["culprit"], said["hang"]["cause"]) == ("2", found["cause"])
    shown = hanging.job.cli("doctor").stdout
    assert "rankdbg why" in shown and "rank 2" in shown


@pytest.mark.parametrize("hanging", ["healthy_training"], indirect=True)
def test_job_that_makes_progress(hanging: HangingJob) -> None:
    """No hang for doctor, no culprit for why."""
    assert "hang" not in doctor(hanging.job)
    found = hanging.why()
    assert not found["stuck"] and not found["evidence"] and "failures" not in found


@pytest.mark.extra
@pytest.mark.parametrize("hanging", ["rank_died"], indirect=True)
def test_rank_that_has_died_while_others_wait(hanging: HangingJob) -> None:
    """What its log says is evidence; without a word in the log there is none."""
    quiet = hanging.why()
    assert (quiet["culprit"], quiet["cause"]) == ("1", "rank-died")
    with hanging.log.open("a") as log:
        log.write("[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
    told = hanging.why()
    assert told["culprit"] == "1"
    assert any("by the logs: cuda_oom on rank 1" in proof for proof in told["evidence"])
    assert "cuda_oom" not in str(quiet["evidence"])
    assert told["failures"][0]["mode"] == "cuda_oom"


def test_rank_that_is_held_at_its_exception(job: Job, tmp_path: Path) -> None:
    """What it has logged is evidence; that it has gone on since is not said."""
    code = (
        "import os, signal\n"
        "if os.environ['RANK'] == '1': raise ValueError('shard 7 is damaged')\n"
        "signal.pause()"
    )
    loop = 'for rank in 0 1; do RANK=$rank WORLD_SIZE=2 "$@" > $rank.log 2>&1 & done; wait'
    words = ("sh", sys.executable, "-c", code)
    job.start("sh", "-c", loop, *words, options=("--break-on-error",), cwd=tmp_path)
    job.wait_for(lambda ranks: [rank.state for rank in ranks] == ["running", "stopped"])
    found = job.json("why")
    told = "\n".join(found["evidence"])
    assert (found["culprit"], found["cause"]) == ("1", "at-breakpoint"), found
    assert "rank 1 logged last" in told and "shard 7 is damaged" in told, told
    assert "went on" not in told, told
    assert doctor(job)["hang"]["by_user"] is False
