"""Each program in examples/, with the options that its first lines say, and the command that it prints
run on it."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from jobs import PATIENCE, TORCHRUN, Job, meeting
from tiers import chiefly
from torch_ranks import fork_ranks
from waiting import wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"
# What the printed command says once the example is as far as it goes.
SAYS = {
    "data_loader_hangs": r"data_loader_hangs\.py",
    "error_on_one_rank": r"\{'step': 3\}",
    "loads_slowly": r"load_batch",
    "nan_from_one_batch": r"rank 1 at step 50, in the output of rows",
    "nan_on_one_rank": r"(?m)^2 .*nan",
    "one_rank_drifts": r"the first is 1\.weight: rank 1",
    "silent_errors": r"the first is 2\.weight: rank 0",
    "skips_a_collective": r"all_reduce #1",
    "step_into_all_reduce": r"0-3 +breakpoint",
    "takes_another_branch": r"Rank 2 parted from ranks 0-1,3 in step 41",
}
# Each rank that torchrun starts loads torch: only where it matters what torchrun does, which ends
# all ranks when one has failed.
WITH_TORCHRUN = {"error_on_one_rank"}

pytestmark = [pytest.mark.slow]


def test_all_are_here() -> None:
    """A new example comes with what its command says."""
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(SAYS)


# Of what other files have real jobs for, too.
LEFT_TO_ALL = {
    "error_on_one_rank", "loads_slowly", "nan_from_one_batch", "one_rank_drifts", "silent_errors",
}  # fmt: skip


@pytest.mark.parametrize("name", chiefly(SAYS.keys() - LEFT_TO_ALL, sorted(SAYS)))
def test_example(name: str, job: Job, tmp_path: Path) -> None:
    """It prints what to run next, and that works."""
    pytest.importorskip("torch", reason="needs torch")
    program = EXAMPLES / f"{name}.py"
    options, ranks = as_documented(program)
    started = [*TORCHRUN, ranks, program] if name in WITH_TORCHRUN else fork_ranks(ranks, program)
    process = job.start(*started, options=options, stderr=subprocess.STDOUT, env=meeting())
    next_ = wait_for(lambda: read_next(process), "next: ...")
    words = shlex.split(next_)
    assert words[0] == "rankdbg"

    def said() -> str:
        given = {"input": "list\n"} if words[1] == "shell" else {}
        result = job.cli(*words[1:], timeout=PATIENCE, cwd=tmp_path, **given)
        last[:] = [result]
        return result.stdout if result.returncode in (0, 1) else ""

    last: list[object] = []
    wait_for(lambda: re.search(SAYS[name], said()), last)


def as_documented(program: Path) -> tuple[tuple[str, ...], str]:
    """Options of rankdbg run, and how many ranks: of the command in the docstring."""
    text = program.read_text()
    command = re.search(r"rankdbg run (.*)-- torchrun --nproc-per-node (\d+) (\S+)", text)
    assert command is not None and command[3] == f"examples/{program.name}"
    options = re.sub(r"--job \S+", "", command[1])  # the test has its own
    return tuple(shlex.split(options)), command[2]


def read_next(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "it ended without saying what to run next"
    return line.strip().removeprefix("next: ") if line.startswith("next: ") else ""
