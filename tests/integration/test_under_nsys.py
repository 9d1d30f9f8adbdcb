"""run --nsys: ranks under nsys (a strict fake of it), and what launchers see of that."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import PROGRAMS, TORCHRUN, Job
from profilers import Nsight, Profiled, needs_nsys
from rosters import kinds, numbers
from waiting import PATIENCE, wait_for

pytestmark = needs_nsys
STEPS = PROGRAMS / "steps.py"
LAUNCH = PROGRAMS / "launch.py"
TINY_DISK = 'mkdir small && mount -t tmpfs -o size=16k tmpfs small && exec "$@"'


@pytest.fixture
def profiled(job: Job, tmp_path: Path) -> Profiled:
    (tmp_path / "work").mkdir()
    return Profiled(job, Nsight(tmp_path / "nsight"), tmp_path / "work")


@pytest.mark.extra
@pytest.mark.slow
def test_one_rank_of_torchrun(profiled: Profiled) -> None:
    """The rank that the pattern names, and for the steps of the range; others are untouched."""
    status, _, told = profiled.run(
        *(*TORCHRUN, 2, STEPS, 5),
        options=("--role", "trainer", "--nsys", "trainer_1", "--nsys-steps", "2:4"),
    )
    assert status == 0, told
    line = "Nsight profiling enabled for worker 'trainer' (matched pattern 'trainer_1')"
    assert told.count("Nsight profiling enabled") == told.count(f"rankdbg: rank 1: {line}") == 1
    assert "not profiled" not in told
    ((name, text),) = profiled.reports().items()
    match = re.fullmatch(r"trainer_2:4_(\d+)\.nsys-rep", name)
    assert match
    assert f"of process {match[1]}" in text
    assert text.endswith("written at stop\n")
    beside = next(profiled.folder.glob("nsight/*/*.json"))
    described = json.loads(beside.read_text())
    assert beside.parent.name == described["host"] == os.uname().nodename
    assert (described["rank"], described["world"], described["steps"]) == (1, 2, "2:4")


def test_what_the_launcher_sees(profiled: Profiled) -> None:
    """The exit status and the input are those of the rank; its report is of the whole run."""
    status, output, _ = profiled.run(
        *("sh", "-c", f"echo words | {sys.executable} {STEPS} 3 exit 5"),
        options=("--nsys", "steps"),
    )
    assert (status, output) == (5, "reads words\n")
    ((name, text),) = profiled.reports().items()
    assert re.fullmatch(r"steps_\d+\.nsys-rep", name)
    assert text.endswith("written at exit\n")


def test_signal(profiled: Profiled) -> None:
    """One that the launcher sends ends the rank, and the report is written."""
    process = profiled.start(sys.executable, STEPS, 3, "wait", options=("--nsys", "*"))
    assert process.stdout.readline() == "reads \n"
    assert process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert len(profiled.reports()) == 1


@pytest.mark.parametrize(
    ("ending", "status"), [("wait", 143), ("stuck", 143), ("loop", 143), ("handles", 6)]
)
def test_told_to_end_while_captured(profiled: Profiled, ending: str, status: int) -> None:
    """The capture ends before the rank does, whatever its main thread is in; one that handles the
    signal does so."""
    options = ("--nsys", "*", "--nsys-steps", "2:9")
    process = profiled.start(sys.executable, STEPS, 3, ending, options=options)
    assert process.stdout.readline() == "reads \n"
    assert process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    (text,) = profiled.reports().values()
    assert text.endswith("written at stop\n")


def test_child_is_told_to_end(profiled: Profiled) -> None:
    """A child that was forked ends by the signal, and its parent knows nothing of it."""
    options = ("--nsys", "*", "--nsys-steps", "2:9")
    status, output, told = profiled.run(sys.executable, STEPS, 3, "fork", options=options)
    assert (status, output) == (0, "reads \nchild -15\n"), told
    assert len(profiled.reports()) == 1


def test_ranks_are_still_ranks(profiled: Profiled) -> None:
    """nsys is none, and each rank answers as ever; its launcher has no name that fits."""
    command = (sys.executable, LAUNCH, 2, PROGRAMS / "behave.py", "waits", "waits")
    profiled.start(*command, options=("--nsys", "behave"))
    profiled.job.wait_for(lambda ranks: [rank.agent for rank in ranks] == [True, True])
    all_ranks = profiled.job.ranks(everything=True)
    assert (numbers(all_ranks), kinds(all_ranks)) == ([0, 1], {"rank": 2, "launcher": 1})
    assert len(profiled.nsight.calls) == 2


@pytest.mark.parametrize("ending", ["", "die"])
def test_early_end(profiled: Profiled, ending: str) -> None:
    """In the middle of the range: what was captured is kept, also of one that was killed."""
    options = ("--nsys", "steps", "--nsys-steps", "2:9")
    status, _, told = profiled.run(
        sys.executable, STEPS, 4, *filter(None, [ending]), options=options
    )
    assert status == (9 if ending else 0), told
    (text,) = profiled.reports().values()
    assert text.endswith(f"written at {'exit' if ending else 'stop'}\n")


def test_children_are_not_profiled(profiled: Profiled) -> None:
    """What a profiled rank starts, by multiprocessing or otherwise, runs as it would."""
    options = ("--nsys", "*", "--nsys-steps", "2:3")
    status, _, told = profiled.run(sys.executable, STEPS, 4, "children", options=options)
    assert status == 0, told
    assert len(profiled.nsight.calls) == len(profiled.reports()) == 1


def test_no_step_of_the_range(profiled: Profiled) -> None:
    """A run that ends before the range, or was resumed behind it, says why it has no report."""
    options = ("--nsys", "steps", "--nsys-steps", "20:30")
    status, _, told = profiled.run(sys.executable, STEPS, 4, options=options)
    assert status == 0
    assert "no report: rankdbg.progress() reported no step in 20:30 (the last step was 4)" in told
    assert profiled.reports() == {}
    options = ("--nsys", "steps", "--nsys-steps", "1:2")
    _, _, told = profiled.run(sys.executable, STEPS, 0, options=options)
    assert "reported no step in 1:2 (it was never called)" in told


def test_captured_when_asked(profiled: Profiled, tmp_path: Path) -> None:
    """A rank that waits under nsys is captured once, for as long as one likes; its report comes
    home. One that does not is told how it could have been."""
    command = (sys.executable, LAUNCH, 2, PROGRAMS / "behave.py", "waits", "waits")
    options = ("--nsys", "behave_0", "--nsys-steps", "later")
    profiled.start(*command, options=options)
    profiled.job.wait_for(lambda ranks: [rank.agent for rank in ranks] == [True, True])
    words = ("profile", "--kind", "nsys", "--seconds", 0.5, "--output")

    shown = profiled.job.cli(*words, tmp_path / "first")
    assert shown.returncode == 0, shown.stderr
    assert re.match(r"rank 0: \d+\.\d s, captured by nsys\n", shown.stdout)
    why = "no response: 1 (it was not started under a waiting nsys; next time: rankdbg run --nsys"
    assert why in " ".join(shown.stdout.split())
    (report,) = (tmp_path / "first/ranks").iterdir()
    assert f"ranks/{report.name}\n" in shown.stdout
    assert report.read_text().endswith("written at stop\n")
    assert [*profiled.reports().values()] == [report.read_text()]

    again = profiled.job.cli(*words, tmp_path / "again")
    assert (again.returncode, (tmp_path / "again").exists()) == (1, False)
    assert (
        "no response: 0  (nsys has already captured this rank, and can do so only once)"
        in again.stdout
    )


def test_nobody_asks(profiled: Profiled) -> None:
    """It waits in vain, and says so at the end."""
    options = ("--nsys", "steps", "--nsys-steps", "later")
    status, _, told = profiled.run(sys.executable, STEPS, 4, options=options)
    assert (status, profiled.reports()) == (0, {})
    assert (
        "no report: none was requested; request one with: rankdbg profile RANKS --kind nsys" in told
    )


def test_nsys_is_missing(profiled: Profiled) -> None:
    """On this node: its ranks say so, and run without."""
    (Path(profiled.nsight.environment["PATH"].split(os.pathsep)[0]) / "nsys").unlink()
    status, output, told = profiled.run(sys.executable, STEPS, 1, options=("--nsys", "*"))
    assert (status, output) == (0, "reads \n")
    assert f"rankdbg: not profiled: nsys is not on PATH on {os.uname().nodename}; add " in told


def test_no_rank_fits(profiled: Profiled) -> None:
    """Rank 0 says by which names ranks can be asked for."""
    command = (sys.executable, LAUNCH, 2, STEPS, 1, "children")
    status, _, told = profiled.run(*command, options=("--nsys", "*policy*,vllm"))
    assert status == 0
    assert told.count("not profiled: no pattern of *policy*, vllm matches steps or steps_0\n") == 1
    assert "rank 1" not in told


def test_options_are_checked_by_nsys(profiled: Profiled) -> None:
    """What it refuses, it says; and the rank's status is not that of a success."""
    options = ("--nsys", "*", "--nsys-options", '{"trace": "cuda,nvtxx"}')
    status, output, told = profiled.run(sys.executable, STEPS, 1, options=options)
    assert (status, output) == (1, "")
    assert "Illegal --trace argument: cuda,nvtxx." in told


def test_variables_of_nemo(profiled: Profiled) -> None:
    """Do the same as ours, with the user's own output, in a folder that is made for it."""
    status, _, told = profiled.run(
        *(sys.executable, STEPS, 3),
        env={
            "NRL_NSYS_WORKER_PATTERNS": " *policy* ,,st?ps",
            "NRL_NSYS_PROFILE_STEP_RANGE": "1:2",
            "NRL_NSYS_EXTRA_OPTIONS": '{"o": "far/off/mine_%h_%q{RANKDBG_JOB}"}',
        },
    )
    assert status == 0, told
    name = f"mine_{os.uname().nodename}_{profiled.job.name}.nsys-rep"
    assert (profiled.folder / "far/off" / name).read_text().endswith("written at stop\n")


def test_wrong_variables_in_a_rank(profiled: Profiled) -> None:
    """Where nobody could check them before: one line, and the program runs."""
    environment = {**os.environ, **profiled.nsight.environment, **profiled.job.environment}
    environment.update(RANKDBG="1", RANKDBG_NSYS_WORKERS="*", RANKDBG_NSYS_STEPS="1-10")
    words = [sys.executable, STEPS, "1"]
    result = subprocess.run(
        words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    said = (
        "not profiled: invalid RANKDBG_NSYS_STEPS: expected steps such as 3:7, not '1-10'; hint: "
    )
    assert result.stdout == "reads \n"
    assert said in result.stderr


def test_the_report_is_waited_for(profiled: Profiled) -> None:
    """Before the rank ends: its launcher may kill all that it leaves behind."""
    environment = {"FAKE_NSYS_SLOW": "1"}
    options = ("--nsys", "steps", "--nsys-steps", "1:2")
    process = profiled.start(
        sys.executable, STEPS, 2, options=options, env=environment, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: profiled.nsight.calls, "nsys")
    (rank, *_) = wait_for(lambda: _pythons(process.pid), "the rank")
    wait_for(lambda: not Path(f"/proc/{rank}").exists(), "its end")
    assert [text[-16:] for text in profiled.reports().values()] == ["written at stop\n"]
    process.kill()


def test_nsys_is_killed(profiled: Profiled) -> None:
    """While its rank waits for the report: there is nothing to wait for any more."""
    environment = {"FAKE_NSYS_SLOW": "60"}
    options = ("--nsys", "steps", "--nsys-steps", "1:2")
    process = profiled.start(sys.executable, STEPS, 2, options=options, env=environment)
    wait_for(lambda: [*profiled.folder.glob("nsight/*/*.nsys-rep")], "an empty report")
    (rank, *_) = wait_for(lambda: _pythons(process.pid), "the rank")
    os.killpg(process.pid, signal.SIGKILL)  # the rank is in a session of its own
    wait_for(lambda: not Path(f"/proc/{rank}").exists(), "the end of the rank")
    assert "no report: nsys has exited without writing /" in process.communicate()[1]


def test_no_report_can_be_made(profiled: Profiled, tmp_path: Path) -> None:
    """Where nsys has no importer, what it has gathered is kept, and comes home."""
    environment = {"FAKE_NSYS_NO_IMPORTER": "1"}
    options = ("--nsys", "steps", "--nsys-steps", "1:2")
    status, _, told = profiled.run(sys.executable, STEPS, 2, options=options, env=environment)
    assert status == 0
    line = (
        r"nsys could not convert /.*/steps_1:2_\d+.qdstrm to a report; QdstrmImporter of the same"
    )
    assert re.search(line, told)

    command = (sys.executable, LAUNCH, 1, PROGRAMS / "behave.py", "waits")
    profiled.start(*command, options=("--nsys", "behave", "--nsys-steps", "later"), env=environment)
    profiled.job.wait_at("waits")
    words = ("profile", "--kind", "nsys", "--seconds", 0.5, "--output", tmp_path / "home")
    shown = profiled.job.cli(*words)
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"note: rank 0: nsys could not convert ", shown.stdout)
    (gathered,) = (tmp_path / "home/ranks").iterdir()
    assert gathered.suffix == ".qdstrm"
    assert f"ranks/{gathered.name}\n" in shown.stdout

    collected = profiled.job.cli("collect", "all", tmp_path / "collected")
    assert collected.returncode == 0, collected.stderr
    assert len([*(tmp_path / "collected").rglob("behave_later_*.qdstrm")]) == 1


def _pythons(pid: int) -> list[int]:
    below = _descendants(pid)
    with contextlib.suppress(OSError):
        return [pid for pid in below if "python" in os.readlink(f"/proc/{pid}/exe")]
    return []


def _descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [found for child in map(int, children) for found in (child, *_descendants(child))]


@pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0,
    reason="needs the right to make namespaces",
)
def test_full_disk(profiled: Profiled) -> None:
    """The rank says that it has no report, does not wait for one, and ends as it would."""
    fill = 'head -c 1M /dev/zero >small/x 2>/dev/null; exec "$@"'
    status, output, told = profiled.run(
        *("unshare", "--mount", "sh", "-c", TINY_DISK, "-", "sh", "-c", fill, "-"),
        *(sys.executable, STEPS, 3),
        options=(
            *("--nsys", "steps", "--nsys-steps", "1:2"),
            *("--nsys-options", '{"output": "small/%p"}'),
        ),
    )
    assert (status, output) == (0, "reads \n"), told
    assert f"no report: the disk is full at {profiled.folder / 'small'}\n" in told


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs openmpi-bin")
def test_mpirun(profiled: Profiled) -> None:
    """Both ranks, each with a report of its own."""
    status, _, told = profiled.run(
        *("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", 2, sys.executable, STEPS, 3),
        options=("--nsys", "steps", "--nsys-steps", "1:3"),
    )
    assert status == 0, told
    assert len(profiled.reports()) == 2
    ranks = [json.loads(file.read_text())["rank"] for file in profiled.folder.rglob("*.json")]
    assert sorted(ranks) == [0, 1]
