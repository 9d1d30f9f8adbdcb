"""The names that `--job` takes for one job: check_job() on rosters that nobody has asked for."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import pytest

from rankdbg.errors import ChooseJob, NoJob
from rankdbg.session.roster import Roster, check_job
from rankdbg.types import ProcessKey, Rank

TRAIN = ("/venv/bin/python", "-u", "/src/train.py", "--lr", "1")


PIDS = count(100)


def rank(job: str, command: tuple[str, ...] = TRAIN, **names: str) -> Rank:
    return Rank(ProcessKey("node-0", next(PIDS), 0), job, 0, names=names, command=command)


def chosen(name: str, *ranks: Rank, inside: Mapping[str, str] | None = None) -> str | None:
    roster = Roster([*ranks], inside={**(inside or {})})
    return check_job(roster, roster.jobs(), name)


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("slurm-17", rank("slurm-17")),
        ("17", rank("slurm-17")),
        ("17_3", rank("slurm-17_3", slurm_job="21")),
        ("21", rank("slurm-17_3", slurm_job="21")),
        ("slurm-21", rank("slurm-17_3", slurm_job="21")),
        ("17", rank("slurm-17_3", slurm_job="21")),
        ("slurm-17", rank("slurm-17_3", slurm_job="21")),
        ("02000000", rank("ray-02000000")),
        ("ray-02000000", rank("mine", ray_job="ray-02000000")),
        ("raysubmit_x", rank("ray-02000000", submission="raysubmit_x")),
        ("python train.py --lr 1", rank("ray-02000000", entrypoint="python train.py --lr 1")),
        ("nightly", rank("torchrun-nightly", run="nightly")),
        ("nightly", rank("train-1f", run="nightly")),
        ("torchrun-nightly", rank("train-1f", run="nightly")),
        ("train", rank("sh-1f")),
        ("train.py", rank("sh-1f")),
        ("/src/train.py", rank("slurm-17")),
        ("pkg.train", rank("train-1f", ("python", "-m", "pkg.train"))),
        ("train", rank("train-1f", ("python", "-m", "pkg.train"))),
    ],
)
def test_names_of_a_job(name: str, of: Rank) -> None:
    """Each is a name of this one, and of no other beside it."""
    other = rank("slurm-9", ("python", "serve.py"), slurm_job="9", step="0")
    assert chosen(name, of, other) == of.job


def test_job_around_it() -> None:
    """Of a job in a pod, or in a job of Slurm."""
    assert chosen("app=llama", rank("train-1f"), inside={"train-1f": "app=llama"}) == "train-1f"


def test_own_name_comes_first() -> None:
    """A job that is called as another one's script is the one that is meant."""
    assert chosen("train", rank("train", ("python", "serve.py")), rank("sh-1f")) == "train"


def test_name_of_several() -> None:
    """Both are named, and how to choose."""
    with pytest.raises(ChooseJob) as refused:
        chosen("17", rank("slurm-17_1"), rank("slurm-17_2"), rank("mine", ("python", "serve.py")))
    assert refused.value.what == "2 jobs are called '17': slurm-17_1, slurm-17_2"
    assert refused.value.hint == "choose one: --job slurm-17_1"


def test_step_is_a_part_of_a_job() -> None:
    """Its ranks are a selection; a step that is not there is no such hint."""
    steps = [rank("slurm-17", step="0"), rank("slurm-17", step="1")]
    with pytest.raises(NoJob) as refused:
        chosen("17.1", *steps)
    assert refused.value.hint == "a step is a part of its job: --job slurm-17 step=1"
    with pytest.raises(NoJob) as refused:
        chosen("17.2", *steps)
    assert not refused.value.hint


def test_no_such_name() -> None:
    """The arguments of a program, and what -c executes, are no names."""
    with pytest.raises(NoJob):
        chosen("--lr", rank("sh-1f"))
    with pytest.raises(NoJob):
        chosen("python", rank("sh-1f", ("python", "-c", "import train")))
