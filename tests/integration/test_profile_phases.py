"""What `rankdbg profile` says of the phases of a step, on programs that really train."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job
from torch_ranks import needs_torch
from waiting import wait_for

pytestmark = [needs_torch, pytest.mark.slow]

PHASES = ("data", "forward", "backward", "optimizer", "communication")


def wait_until_it_trains(log: Path, ranks: int) -> None:
    def trains() -> bool:
        # Two ranks may write their lines before either writes its end of line.
        return log.read_text().count("trains") == ranks

    wait_for(trains, lambda: log.read_text())


def profile_of_whole_steps(job: Job, folder: Path) -> Any:
    """Recorded anew until each phase was seen in both ranks: a busy machine may leave them no time
    for a whole step."""
    recorded: list[Any] = []

    def has_all_phases() -> bool:
        output = folder / str(len(recorded))
        recorded.append(job.json("profile", "--seconds", "3", "-o", output))
        shares = [rank["phases"] for rank in recorded[-1]["ranks"]]
        return all(share.get(phase, 0.0) > 0.003 for share in shares for phase in PHASES)

    wait_for(has_all_phases, lambda: recorded[-1]["phases"])
    return recorded[-1]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.mark.extra
def test_plain_torch(job: Job, log: Path, tmp_path: Path) -> None:
    """Each phase of a step is seen, in ranks that are alike; functions of torch.nn that the data set
    uses are data. Rules of the user's own come first."""
    with log.open("w") as output:
        job.start_torch(2, PROGRAMS / "train_plain.py", stdout=output, stderr=output)
    wait_until_it_trains(log, 2)
    said = profile_of_whole_steps(job, tmp_path)
    for rank in said["ranks"]:
        phases = rank["phases"]
        assert sum(phases.values()) == pytest.approx(1.0, abs=0.01)
        assert phases.get("other", 0.0) < 0.2, said["phases"]
    assert sum(group["count"] for group in said["phases"]) == 2
    (of_data,) = {row["phase"] for row in said["rows"] if row["calls"] == "interpolate"}
    assert of_data == "data"
    rules = tmp_path / "mine.toml"
    rules.write_text('[[profile]]\nphase = "augmentation"\nframes = ["interpolate"]\n')
    words = ("--seconds", "2", "--rules", rules, "-o", tmp_path / "q")
    text = job.cli("profile", *words, env={"COLUMNS": "80"}).stdout
    assert "AUGMENTATION" in text
    assert max(map(len, text.splitlines())) <= 80


def needs(module: str) -> Any:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"needs {module}")


@pytest.mark.parametrize(
    "framework",
    [
        pytest.param("transformers", marks=needs("transformers")),
        pytest.param("lightning", marks=[needs("pytorch_lightning"), pytest.mark.extra]),
    ],
)
def test_frameworks(job: Job, log: Path, tmp_path: Path, framework: str) -> None:
    """Where the user's code is one call of a Trainer, that is told apart by phases."""
    program = PROGRAMS / f"train_with_{framework}.py"
    with log.open("w") as output:
        words = (sys.executable, program, tmp_path / "out")
        job.start(*words, env={"OMP_NUM_THREADS": "1"}, stdout=output, stderr=output)
    wait_until_it_trains(log, 1)
    said = job.json("profile", "--seconds", "3", "-o", tmp_path / "p")
    (group,) = said["phases"]
    for phase in ("forward", "backward", "optimizer"):
        assert group["shares"].get(phase, 0.0) > 0.03, group
    assert group["shares"].get("data", 0.0) > 0.0, group
    assert group["shares"].get("other", 0.0) < 0.2, group


def test_bad_rules(job: Job, tmp_path: Path) -> None:
    """A fault in a rule is said before anything is recorded."""
    rules = tmp_path / "mine.toml"
    rules.write_text('[[profile]]\nphase = "augmentation"\n')
    said = job.cli("profile", "--rules", rules)
    assert said.returncode == 2
    assert "[[profile]] augmentation: frames is missing" in said.stderr
    assert (
        "--rules needs --kind cpu" in job.cli("profile", "--kind", "torch", "--rules", rules).stderr
    )
