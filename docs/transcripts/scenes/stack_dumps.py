"""Four ranks, of which rank 1 waits for its data loader: dumped with py-spy, and then ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from transcripts.machine import copy_here, end, start
from transcripts.scenario import NotRun, Play, Scene, run_in_shell, wait_until


def dumped(play: Play) -> None:
    copy_here("examples/data_loader_hangs.py")
    words = "torchrun --nproc-per-node 4 data_loader_hangs.py"
    job = start(["rankdbg", "run", "--job", "train", "--", *words.split()])
    wait_until("rankdbg ps", "data_loader_hangs.py:32   <- alone here")
    py_spy = Path(sys.executable).parent / "py-spy"
    run_in_shell("mkdir dumps")
    for rank in json.loads(run_in_shell("rankdbg ps --json"))["ranks"]:
        pid, number = rank["pid"], rank["rank"]
        run_in_shell(f"{py_spy} dump --pid {pid} > dumps/rank{number}.txt")
    end(job)
    play.run("wait for rank 1")


SCENARIO = [
    Scene(dumped, ("rankdbg why ./dumps",)),
    NotRun("shown without output", ("xclip -o",)),
]
