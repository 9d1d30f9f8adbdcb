"""rankdbg ask: values from running ranks, grouped."""

from __future__ import annotations

import json
import time

import pytest

from jobs import Job
from waiting import PATIENCE, TEST_SECONDS


def test_equal_answers_are_grouped_and_nan_stands_out(job: Job) -> None:
    """One row for the ranks that agree, one for the rank with nan, marked."""
    job.start_ranks("waits", "waits", "waits", "waits")
    job.wait_at(*["waits"] * 4)
    result = job.cli("ask", "all", "loss")
    assert result.stdout.splitlines() == ["0,2-3  2.5", "1      nan   <- odd one out"]
    document = job.json("ask", "all", "loss")
    assert document["schema"] == "rankdbg.ask/1"
    majority, odd = document["groups"]
    assert (majority["ranks"], majority["value"], majority["odd"]) == ("0,2-3", "2.5", False)
    assert (odd["ranks"], odd["value"], odd["odd"]) == ("1", "nan", True)
    (outlier,) = document["spread"]["outliers"]
    assert (outlier["rank"], outlier["value"]) == (1, "nan")


def test_it_is_evaluated_in_the_innermost_user_frame(job: Job) -> None:
    """Not in threading.py, where the rank really stands; --frame picks another."""
    job.start_ranks("waits")
    job.wait_at("waits")
    assert job.json("ask", "all", "same['lr'] * 2")["groups"][0]["value"] == "0.2"
    assert job.json("ask", "all", "name", "--frame", "<module>")["groups"][0]["value"] == (
        '"a module\'s variable"'
    )
    innermost = job.json("ask", "all", "self", "--frame", "0")["groups"][0]
    assert "Condition" in innermost["value"]


def test_an_exception_is_the_answer_of_its_rank(job: Job) -> None:
    """A name that only one rank lacks is an error there and a value elsewhere."""
    job.start_ranks("waits", "waits_elsewhere", "waits")
    job.wait_at("waits", "waits_elsewhere", "waits")
    majority, odd = job.json("ask", "all", "rank * 0")["groups"]
    assert (majority["ranks"], majority["value"]) == ("0,2", "0")
    assert (odd["ranks"], odd["kind"]) == ("1", "error")
    assert odd["value"] == "NameError: name 'rank' is not defined"


def test_long_values_are_cut_with_their_length(job: Job) -> None:
    """A text of 100,000 characters and a list of as many items stay on a line."""
    job.start_ranks("waits")
    job.wait_at("waits")
    (group,) = job.json("ask", "all", "text")["groups"]
    assert group["length"] == 100_000
    assert len(group["value"]) <= 2000
    line = job.cli("ask", "all", "text").stdout
    assert line.startswith("0  (100000 characters) 'xxx")
    assert len(line) < 90
    assert "100000 in all" in job.json("ask", "all", "several")["groups"][0]["value"]


@pytest.mark.slow
def test_an_expression_without_end_is_a_silence_in_time(job: Job) -> None:
    """The rank goes on and answers the next question."""
    job.start_ranks("waits", "waits")
    job.wait_at("waits", "waits")
    begun = time.monotonic()
    endless = "any(False for _ in iter(int, 1)) if rank else 5"
    result = job.cli("ask", "--json", "--timeout", 5, "all", endless, timeout=TEST_SECONDS)
    assert time.monotonic() - begun < PATIENCE
    document = json.loads(result.stdout)
    assert document["groups"][0]["ranks"] == "0"
    (silence,) = document["no_response"]
    assert silence["rank"] == 1
    assert "longer than" in silence["reason"]
    assert job.json("ask", "all", "loss")["groups"][0]["count"] == 1


def test_a_bad_expression_is_said_once_with_its_place(job: Job) -> None:
    """A syntax error is found before any rank is asked: exit status 2 and a caret."""
    result = job.cli("ask", "all", "loss +* 2")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[1:3] == ["  loss +* 2", "        ^"]
    assert job.cli("ask", "all", "x = 3").returncode == 2
    assert job.cli("ask", "all", "").returncode == 2
    assert "Traceback" not in result.stderr


def test_arrays_are_shown_by_their_figures(job: Job, tmp_path) -> None:
    """Tensors with equal shape, type and figures are one group, a rank with nan another."""
    program = tmp_path / "arrays.py"
    program.write_text(
        "import threading, os, torch, numpy\n"
        "rank = int(os.environ['RANK'])\n"
        "t = torch.arange(6.).reshape(2, 3)\n"
        "n = numpy.ones((4, 5), dtype='int16')\n"
        "if rank == 2: t[0, 1] = float('nan')\n"
        "def stands(): threading.Event().wait()\n"
        "stands()\n"
    )
    job.start_torch(3, program)
    job.wait_at("stands", "stands", "stands")
    majority, odd = job.json("ask", "all", "t")["groups"]
    assert majority["ranks"] == "0-1"
    assert majority["value"] == "2×3 float32 cpu min 0 mean 2.5 max 5"
    assert (odd["ranks"], odd["nan"], odd["odd"]) == ("2", 1, True)
    assert job.json("ask", "all", "n")["groups"][0]["shape"] == [4, 5]
