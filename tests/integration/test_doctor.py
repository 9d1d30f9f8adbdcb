"""doctor, phases and rules: from a directory of logs to the first cause."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crashes import CRASHES, Crash, nccl_timeout, out_of_memory_on_one_rank, steps
from jobs import rankdbg
from rankdbg.verdicts.rules.log_rules import load_rules


def doctor(*paths: object) -> dict[str, Any]:
    result = rankdbg("doctor", "--json", *paths)
    assert result.returncode in (0, 1), result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: crash.__name__)
def test_first_cause(tmp_path: Path, crash: Callable[[], Crash]) -> None:
    """The first cause and its rank are named, not the loudest line."""
    job = crash()
    job.write(tmp_path)
    failures = doctor(tmp_path)["failures"]
    assert (failures[0]["mode"], failures[0]["role"]) == (job.mode, "root")
    assert failures[0]["ranks"] == job.ranks
    assert [f["mode"] for f in failures if f["role"] == "root"] == [job.mode]
    assert all({"mode", "role", "ranks", "lines", "cause", "next"} <= f.keys() for f in failures)


def test_consequences_and_teardown(tmp_path: Path) -> None:
    """What follows from the cause is said to, with its ranks."""
    out_of_memory_on_one_rank().write(tmp_path)
    roles = {f["mode"]: (f["role"], f["ranks"]) for f in doctor(tmp_path)["failures"]}
    assert roles["nccl_watchdog_timeout"] == ("consequence", "0-2,4-7")
    assert roles["torchrun_child_failed"] == ("teardown", "3")


def test_evidence(tmp_path: Path) -> None:
    """The lines have their file, number and text; the text output names them too."""
    out_of_memory_on_one_rank().write(tmp_path)
    lines = doctor(tmp_path)["failures"][0]["lines"]
    assert lines[0].startswith(f"{tmp_path}/rank_3/stderr.log:66: [rank3]: torch.OutOfMemoryError")
    shown = rankdbg("doctor", ".", cwd=tmp_path)
    assert shown.returncode == 1
    assert "cuda_oom on rank 3" in shown.stdout
    assert "rank_3/stderr.log:66" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert len(shown.stdout.splitlines()) <= 15
    assert load_rules().failures["cuda_oom"].fix in " ".join(shown.stdout.split())
    full = rankdbg("doctor", ".", "--full", cwd=tmp_path).stdout
    assert "nccl_watchdog_timeout on ranks 0-2,4-7" in full


def test_explanation(tmp_path: Path) -> None:
    """JSON tells the events, which of them explain which, and how sure that is."""
    out_of_memory_on_one_rank().write(tmp_path)
    document = doctor(tmp_path)
    modes = [event["mode"] for event in document["events"]]
    explained = {(modes[cause], modes[effect]) for cause, effect in document["explains"]}
    assert ("cuda_oom", "nccl_watchdog_timeout") in explained
    assert {event["outcome"] for event in document["events"]} == {"fatal"}
    assert document["confidence"]["level"] == "high"


@pytest.mark.parametrize("verb", ["doctor", "logs"])
def test_standard_input(verb: str) -> None:
    """`kubectl logs … | rankdbg doctor -`."""
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    said = rankdbg(verb, "-", input=f"{line}\n")
    assert (said.returncode, said.stderr) == (int(verb == "doctor"), "")
    assert "torch.OutOfMemoryError: CUDA out of memory" in said.stdout


def test_nothing_failed(tmp_path: Path) -> None:
    """A healthy job has no failures, exit status 0, and its phase."""
    for rank in range(4):
        (tmp_path / f"rank_{rank}.log").write_text("\n".join(steps(rank, 100)) + "\n")
    result = rankdbg("doctor", "--json", tmp_path)
    document = json.loads(result.stdout)
    assert result.returncode == 0
    assert document["failures"] == []
    assert [(p["rank"], p["phase"], p["step"]) for p in document["phases"]] == [
        (rank, "step", 90) for rank in range(4)
    ]


def test_harmless(tmp_path: Path) -> None:
    """What looks alarming and is harmless is no failure, and is named with its count."""
    line = "[E] Failed to establish connection to the metrics exporter agent. rpc_code: 14\n"
    (tmp_path / "raylet.out").write_text(line * 12)
    document = doctor(tmp_path)
    assert document["failures"] == []
    assert [(h["mode"], h["count"]) for h in document["harmless"]] == [
        ("benign_ray_metrics_agent", 12)
    ]


def test_rotated_binary_and_unreadable(tmp_path: Path) -> None:
    """A gzipped old log is read, garbage is survived, what cannot be read is said."""
    (tmp_path / "job.log.1.gz").write_bytes(gzip.compress("\n".join(nccl_timeout(3, 9)).encode()))
    (tmp_path / "core.log").write_bytes(bytes(range(256)) * 4096)
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8b\x08nonsense")
    result = rankdbg("doctor", "--json", tmp_path)
    assert [f["mode"] for f in json.loads(result.stdout)["failures"]] == ["nccl_watchdog_timeout"]
    assert "cannot read" in result.stderr
    assert "broken.gz" in result.stderr


def test_traceback_without_a_time(tmp_path: Path) -> None:
    """A log that has no times at all is read like any other."""
    frames = 'Traceback (most recent call last):\n  File "/job/train.py", line 21, in <module>\n'
    (tmp_path / "train.log").write_text(f"{frames}    step()\nValueError: shard 1 is damaged\n")
    (failure,) = doctor(tmp_path)["failures"]
    assert failure["mode"] == "python_error"


def test_secrets_are_masked(tmp_path: Path) -> None:
    """A token in a log line does not leave the log."""
    token = "hf_" + "aB3" * 12
    (tmp_path / "a.log").write_text(f"GatedRepoError: 401 Client Error for {token}\n")
    assert token not in json.dumps(doctor(tmp_path))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["doctor", "nosuch"], "no file or directory nosuch"),
        (["phases", "empty"], "no log files in empty"),
        (["doctor", "empty", "--rules", "nosuch.toml"], "cannot read the rules in nosuch.toml"),
        (["rules", "cuda_oops"], "rankdbg rules cuda_oom"),
        (["rules", "check"], "no rule file given"),
    ],
)
def test_bad_input(tmp_path: Path, words: list[str], message: str) -> None:
    """One clear sentence, exit status 2, no traceback."""
    (tmp_path / "empty").mkdir()
    result = rankdbg(*words, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_phases_fold_and_stall(tmp_path: Path) -> None:
    """Ranks in the same phase are one block; one that is silent for too long is marked."""
    for rank in range(4):
        lines = steps(rank, 100 if rank == 2 else 1500)
        (tmp_path / f"rank_{rank}.log").write_text("\n".join(lines) + "\n")
    result = rankdbg("phases", ".", cwd=tmp_path)
    assert result.returncode == 1
    assert "ranks 0-1,3   torchtitan" in result.stdout
    assert "rank 2   torchtitan" in result.stdout
    assert "longer than the 10 min" in result.stdout


def test_rules_check(tmp_path: Path) -> None:
    """A rule file is tested, and the lines that it matches are shown."""
    (tmp_path / "mine.toml").write_text(
        '[[failure]]\nmode = "jam"\ncause = "C."\nfix = "F."\nmatch = ["widget jammed"]\n'
    )
    (tmp_path / "a.log").write_text("fine\nwidget jammed at 3\n")
    result = rankdbg("rules", "check", "mine.toml", "a.log", cwd=tmp_path)
    assert result.returncode == 0
    assert "mine.toml: 1 valid rule" in result.stdout
    assert "a.log:2: widget jammed at 3" in result.stdout
    found = rankdbg("doctor", "a.log", "--rules", "mine.toml", cwd=tmp_path)
    assert "jam" in found.stdout
