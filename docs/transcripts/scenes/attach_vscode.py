"""Four ranks that train, for an editor."""

from __future__ import annotations

import re
from pathlib import Path

from transcripts.machine import CHECKOUT, start
from transcripts.scenario import NotRun, Play, Scene, wait_until

PROGRAM = CHECKOUT / "examples/nan_on_one_rank.py"


def all_ranks(play: Play) -> None:
    Path("train.py").write_text(PROGRAM.read_text())
    play.start()
    wait_until("rankdbg ask all loss --frame train", "nan  float32")
    play.run("wrote .vscode/launch.json")


def waits_for_editor(play: Play) -> None:
    Path("train.py").write_text(PROGRAM.read_text())
    play.start().show("rank 0 waits", "rank 1 waits")


def token(play: Play) -> None:
    Path("train.py").write_text(PROGRAM.read_text())
    command = ["torchrun", "--nproc-per-node", 4, "train.py"]
    start(["rankdbg", "run", "--job", "train", "--", *command])
    wait_until("rankdbg ask all loss --frame train", "nan  float32")
    play.start().show("token", keep=without_token)


def without_token(lines: list[str]) -> list[str]:
    return [re.sub(r'("token": "....)\w+', r"\1…", line) for line in lines]


SCENARIO = [
    Scene(all_ranks, ("rankdbg run --job train", "rankdbg vscode --job train")),
    NotRun(
        "shows commands alone, for targets that are not there",
        ("rankdbg vscode -t slurm", "rankdbg vscode -t ssh", "rankdbg vscode -t k8s"),
    ),
    Scene(waits_for_editor, ("rankdbg run --job train --wait-for-editor",)),
    Scene(token, ("rankdbg dap",)),
    NotRun("shows a command alone", ("rankdbg dap --single 3",)),
]
