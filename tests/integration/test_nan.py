"""The first nan of a real job: where it appears, and that all go on afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rankdbg as rankdbg_module
from agents import Programs
from jobs import PROGRAMS, Job, rankdbg
from stopping import Stops
from waiting import wait_for

pytestmark = [pytest.mark.slow]

LIMITS = (
    "[int(group._get_backend(torch.device('cpu')).options._timeout.total_seconds())"
    " for group in dist.distributed_c10d._world.pg_map]"
)


def nan(job: Job, status: int, *words: str) -> Any:
    result = job.cli("nan", "--json", *words)
    assert result.returncode == status, (result.stdout, result.stderr)
    found = json.loads(result.stdout)
    assert found["no_response"] == []
    return found


def wait_for_steps(job: Job, more: int) -> None:
    """Until both ranks have made so many steps more."""
    told = lambda: [rank.step or 0 for rank in job.ranks()]  # noqa: E731
    wait_for(lambda: len(told()) == 2 and min(told()) > 0, told)
    begun = max(told())
    wait_for(lambda: min(told()) >= begun + more, told)


def test_a_nan_from_one_batch(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Armed ranks go on through masks of -inf; the one with the bad batch stops in what called the
    module, the other one waits with its timeouts held; both go on, and nan spreads."""
    pytest.importorskip("torch", reason="needs torch")
    bad = tmp_path / "bad"
    job.start_torch(2, PROGRAMS / "nan_torch.py", bad)
    wait_for_steps(job, 2)
    healthy = nan(job, 0)
    assert (healthy["bad"], healthy["first"]) == ([], None)
    assert healthy["tensors"] >= 5  # with or without gradients
    assert [each["name"] for each in healthy["expected"]] == ["0.scores.mask"]
    assert nan(job, 0, "--arm")["armed"] == "0-1"
    wait_for_steps(job, 5)
    assert nan(job, 0)["armed"] == "0-1"

    bad.touch()
    (stop,) = Stops(job).wait(1)
    assert (stop["rank"], stop["kind"]) == (1, "nan")
    assert stop["where"]["function"].endswith("forward")
    wait_for(lambda: nan(job, 1)["armed"] == "", "the other rank is disarmed")
    first = nan(job, 1)["first"]
    assert (first["rank"], first["module"], first["type"]) == ("1", "0.rows", "UnitRows")
    assert (first["phase"], first["origin"], first["stopped"]) == ("forward", "module", True)
    assert [str(first["step"])] == [
        g["value"] for g in job.json("ask", "1", "bad_step", "--frame", "train")["groups"]
    ]
    (given,) = (each for each in first["tensors"] if each["role"] == "input")
    assert (given["shape"], given["nan"]) == ([4, 5, 8], 0)
    assert "keeps its limit" not in job.cli("list").stdout
    # 20 days, instead of the minute that the program has given to its group.
    (held,) = job.json("ask", "0", LIMITS, "--frame", "train")["groups"]
    assert held["value"] == "[1728000]"
    text = " ".join(job.cli("nan").stdout.split())
    assert "0.rows made it: its inputs and its parameters were finite" in text
    assert "rankdbg continue 1 resumes the rank" in text

    assert "resumed" in job.cli("continue", "1").stdout
    wait_for_steps(job, 3)
    monkeypatch.setenv("RANKDBG_DIR", str(job.directory))
    with rankdbg_module.connect(job=job.name) as connection:
        spread = connection.nan()
        assert "was not armed" in repr(connection.arm_nan(on=False))
    assert {each.name for each in spread.bad if each.kind == "parameter"} >= {"0.linear.weight"}
    assert len(spread.bad[0].ranks) == 2
    assert "it has continued since" in spread.advice()
    assert "not finite" in spread._repr_html_()
    assert spread.records()


def test_a_program_without_torch(programs: Programs) -> None:
    process = programs.start(
        "import threading; print(1, flush=True); threading.Event().wait()",
        env={"RANK": "0", "RANKDBG_JOB": "plain"},
    )
    assert process.said == "1"
    result = rankdbg("nan", "--job", "plain", env=programs.environment())
    assert (result.returncode, result.stdout) == (0, "rank 0: no model of torch was found.\n")
    result = rankdbg("nan", "--arm", "--job", "plain", env=programs.environment())
    said = "0  not armed: the program has not loaded torch.nn\n"
    assert (result.returncode, result.stdout) == (1, said)
    for words in (["--arm", "--disarm"], ["--exact"]):
        wrong = rankdbg("nan", *words, "--job", "plain", env=programs.environment())
        assert (wrong.returncode, wrong.stdout) == (2, "")
