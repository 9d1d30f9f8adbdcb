"""`rankdbg logs --diff` of one file that two ranks have written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from jobs import rankdbg

SAID = (("0", "loads"), ("1", "loads"), ("0", "step 1"), ("1", "retries"), ("1", "step 1"))


@pytest.mark.parametrize(
    "prefix",
    [
        "[default{}]:",
        "[rank{}]: ",
        "[trainer{}]:[rank{}]: ",
        "[1,{}]<stdout>:",
        "[prterun-node-1-471@1,{}]<stderr>: ",
        "Mon Nov 16 20:09:46 2026[1,{}]<stdout>:",
        "[{}] ",
        "{}: ",
        "0{}: ",
    ],
)
def test_ranks_are_told_apart_by_prefixes(tmp_path: Path, prefix: str) -> None:
    """Of torchrun, torch, mpirun, MPICH and srun."""
    log = tmp_path / "log"
    log.write_text("".join(prefix.format(rank, rank) + f"{text}\n" for rank, text in SAID))
    told = json.loads(rankdbg("logs", "--diff", "--json", log).stdout)
    assert [(kind["ranks"], kind["text"]) for kind in told["some"]] == [("1", "retries")]


def test_processes_of_a_ray_driver_are_told_apart(tmp_path: Path) -> None:
    """Its lines name processes; ranks cannot be chosen then."""
    log = tmp_path / "log"
    log.write_text("".join(f"(Trainer pid=40{rank}) {text}\n" for rank, text in SAID))
    result = rankdbg("logs", "--diff", log)
    assert "logged by some of Trainer:400, Trainer:401, not by all: 1 kind" in result.stdout
    assert "Trainer:401  retries" in result.stdout
    chosen = rankdbg("logs", "1", "--diff", log)
    assert chosen.returncode == 2
    assert "the lines name processes, not ranks" in chosen.stderr


def test_lines_that_say_nothing_of_their_rank(tmp_path: Path) -> None:
    """One sentence, and what to do about it."""
    log = tmp_path / "log"
    log.write_text("loads\nloads\nretries\n")
    result = rankdbg("logs", "--diff", log)
    assert result.returncode == 2
    assert "mpirun --tag-output" in result.stderr
    assert "[1]" not in result.stderr


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun")
def test_the_output_of_a_real_mpirun(tmp_path: Path) -> None:
    """With its tags and clocks."""
    log = tmp_path / "log"
    script = 'echo loads; if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then echo retries; fi'
    root = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    words = ["mpirun", "--oversubscribe", "--tag-output", "--timestamp-output", "-n", "2"]
    with log.open("w") as output:
        subprocess.run(
            [*words, "sh", "-c", script], env={**os.environ, **root}, stdout=output, check=True
        )
    told = json.loads(rankdbg("logs", "--diff", "--json", log).stdout)
    assert [(kind["ranks"], kind["text"]) for kind in told["some"]] == [("1", "retries")]
