"""run --nsys with the real Nsight Systems, on a GPU: what is on its reports."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import PROGRAMS, Job
from waiting import PATIENCE, TEST_SECONDS

if not Path("/dev/nvidiactl").exists():
    pytest.skip("there is no GPU", allow_module_level=True)
torch = pytest.importorskip("torch", reason="there is no torch")
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
    pytest.mark.skipif(shutil.which("nsys") is None, reason="there is no nsys"),
]
PROGRAM = PROGRAMS / "nsys_cuda.py"
KERNELS = 7  # of the program, in each step
# In some virtual machines nsys gathers gigabytes of context switches, and does not end.
OPTIONS = ("--nsys", "nsys_*", "--nsys-options", '{"cpuctxsw": "none"}', "--nsys-steps")


@pytest.mark.parametrize(("steps", "count", "within"), [("3:5", 8, 2), ("3:99", 6, 4)])
def test_kernels_of_the_steps(
    job: Job, tmp_path: Path, steps: str, count: int, within: int
) -> None:
    """Those of the range, and no others; also of a program that ends within it."""
    process = job.start(sys.executable, PROGRAM, count, options=(*OPTIONS, steps), cwd=tmp_path)
    output, told = process.communicate(timeout=TEST_SECONDS)
    assert process.returncode == 0, told
    assert f"step {count}\n" in output
    assert "no report" not in told
    (report,) = tmp_path.glob(f"nsight/*/nsys_cuda_{steps}_*.nsys-rep")
    assert count_kernels(report) == within * KERNELS


def test_captured_when_asked(job: Job, tmp_path: Path) -> None:
    """The report of a running rank comes home, and the rank goes on."""
    job.start(sys.executable, PROGRAM, 0, options=(*OPTIONS, "later"), cwd=tmp_path)
    job.wait_for(lambda ranks: any(rank.step for rank in ranks))
    words = ("profile", "--kind", "nsys", "--seconds", 1, "--output", tmp_path / "home")
    shown = job.cli(*words)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    (report,) = (tmp_path / "home/ranks").glob("*.nsys-rep")
    assert count_kernels(report) > KERNELS
    before = job.ranks()[0].step or 0
    job.wait_for(lambda ranks: (ranks[0].step or 0) > before)


@pytest.mark.parametrize(
    ("steps", "number"),
    [
        ("3:1000000", signal.SIGTERM),  # by a launcher
        ("3:1000000", signal.SIGINT),  # ^C
        ("", signal.SIGTERM),
    ],
)
def test_told_to_end(job: Job, tmp_path: Path, steps: str, number: signal.Signals) -> None:
    """What was captured until then is kept: nsys by itself would have lost all of the GPU."""
    options = OPTIONS if steps else OPTIONS[:-1]
    words = tuple(filter(None, [*options, steps]))
    process = job.start(sys.executable, PROGRAM, 0, options=words, cwd=tmp_path)
    for line in process.stdout:
        if line == "step 100\n":
            break
    process.send_signal(number)
    _, told = process.communicate(timeout=PATIENCE)
    reports = [*tmp_path.glob("nsight/*/*.nsys-rep")]
    assert len(reports) == 1, told
    assert count_kernels(reports[0]) >= 90 * KERNELS, told


def count_kernels(report: Path) -> int:
    exported = report.with_suffix(".sqlite")
    words = ["nsys", "export", "--type=sqlite", f"--output={exported}", str(report)]
    subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE)
    with contextlib.closing(sqlite3.connect(exported)) as tables:
        (found,) = tables.execute("SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    return int(found)
