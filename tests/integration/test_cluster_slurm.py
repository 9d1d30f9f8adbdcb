"""A real Slurm of four nodes, with jobs in it, looked at from its login node."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recorded_rosters
from jobs import PROGRAMS, command
from profilers import Nsight, needs_nsys
from rankdbg.errors import NoJob
from slurm_cluster import SlurmCluster, running_cluster
from waiting import PATIENCE, wait_for

TORCH = PROGRAMS / "slurm_torch.py"
BEHAVE = PROGRAMS / "behave.py"
STOPS = PROGRAMS / "stops.py"
RANKDBG = Path(sys.executable).with_name("rankdbg")
# Eight ranks of torch start on as many processors as there are.


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def training(slurm: SlurmCluster) -> str:
    """Eight ranks of torch, two on each node."""
    options = ("-N4", "--ntasks-per-node=2", "--job-name=training", "--no-kill")
    job = slurm.submit_ranks(TORCH, slurm.place / "store", options=options)
    slurm.wait_for_ranks(job, 8, "train_step")
    return job


@pytest.fixture(scope="module")
def serving(slurm: SlurmCluster, training: str) -> str:
    """Two ranks, on two of the nodes that the training uses too."""
    options = ("-N2", "--ntasks-per-node=1", "--job-name=serving")
    job = slurm.submit_ranks(BEHAVE, "waits", "waits", options=options)
    slurm.wait_for_ranks(job, 2, "waits")
    return job


# --- every verb ---------------------------------------------------------------------------


def test_ps(slurm: SlurmCluster, training: str) -> None:
    """All ranks on all nodes, as one job with the number that Slurm gave it."""
    found = slurm.roster(training)
    assert [job["job"] for job in found["jobs"]] == [f"slurm-{training}"]
    places = {rank["rank"]: rank["host"] for rank in found["ranks"]}
    assert places == {rank: f"node-{rank // 2}" for rank in range(8)}
    assert {rank["world"] for rank in found["ranks"]} == {8}


@pytest.mark.extra
@pytest.mark.slow
def test_profile(slurm: SlurmCluster, training: str, tmp_path: Path) -> None:
    """Operators of all ranks on all nodes come home as one time line, with clocks compared."""
    options = ("-t", f"slurm:{training}", "--seconds", "1", "--output", tmp_path / "out")
    traced = slurm.json("profile", "--kind", "torch", *options)
    assert traced["no_response"] == []
    assert sorted(traced["clocks"]) == [f"node-{number}" for number in range(4)]
    assert all(clock["error"] < 1 for clock in traced["clocks"].values())
    with gzip.open(tmp_path / "out/trace.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert names == [f"rank {rank} · node-{rank // 2}" for rank in range(8)]


def test_only_this_job(slurm: SlurmCluster, serving: str) -> None:
    """Another job of the same user on the same nodes is not shown."""
    found = slurm.roster(serving)
    assert [job["job"] for job in found["jobs"]] == [f"slurm-{serving}"]
    assert sorted(rank["rank"] for rank in found["ranks"]) == [0, 1]


@pytest.mark.extra
def test_two_jobs_at_once(slurm: SlurmCluster, training: str, serving: str) -> None:
    """Two targets are one roster with two jobs."""
    found = slurm.roster(training, serving)
    counts = {job["job"]: job["count"] for job in found["jobs"]}
    assert counts == {f"slurm-{training}": 8, f"slurm-{serving}": 2}


@pytest.mark.extra
@needs_nsys
@pytest.mark.slow
def test_rank_under_nsys(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Of two ranks that srun starts the one that the pattern names; it is still that rank, and
    its files are followed until the job is cancelled. It then has its report."""
    nsight, work, home = Nsight(tmp_path / "nsight"), slurm.place / "work", tmp_path / "home"
    work.mkdir()
    words = ["env", "-C", work, *(f"{key}={value}" for key, value in nsight.environment.items())]
    words += [sys.executable, "-m", "rankdbg", "run", "--nsys", "behave_1", "--"]
    job = slurm.submit(*words, sys.executable, BEHAVE, "waits", "waits", options=("-N2", "-n2"))
    slurm.wait_for_ranks(job, 2, "waits")
    assert len(nsight.calls) == 1
    following = subprocess.Popen(
        command("collect", "all", str(home), "--follow", "0.5"),
        env={**slurm.environment, "RANKDBG_TARGET": f"slurm:{job}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    described = wait_for(lambda: list(home.rglob("behave_*.json")), "the first look")
    assert json.loads(described[0].read_text())["rank"] == 1
    slurm.cancel(job)
    told = following.communicate(timeout=PATIENCE)[0]
    assert list(work.rglob("behave_*.nsys-rep")), told
    assert "into" in told
    # The nodes outlive the cancelling until Slurm kills them: the last look may find all of them.
    assert following.returncode == 0 or "has ended: its state is C" in told, told


@pytest.mark.extra
def test_ranks_with_titles(slurm: SlurmCluster, training: str) -> None:
    """A rank that has written a title over its environment still belongs to its job."""
    title = json.dumps(["trainer " + "x" * 300])
    job = slurm.submit_ranks(PROGRAMS / "run_titled.py", title, options=("-N2", "-n2"))
    slurm.wait_for_ranks(job, 2, "waits")
    slurm.call("scancel", job)


def test_stacks(slurm: SlurmCluster, training: str) -> None:
    """One tree of the stacks of all nodes."""
    result = slurm.cli("stacks", "-t", f"slurm:{training}")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("8 ranks, 3 samples")
    assert "main slurm_torch.py" in result.stdout


def test_ask(slurm: SlurmCluster, training: str) -> None:
    """The same expression in all ranks, equal answers together."""
    result = slurm.cli("ask", "-t", f"slurm:{training}", "all", "dist.get_world_size()")
    assert result.stdout.split() == ["0-7", "8"], result.stderr


@pytest.mark.slow
def test_why(slurm: SlurmCluster, training: str) -> None:
    """A healthy job is not accused; one rank that stands on one node is, by its name."""
    target = ("-t", f"slurm:{training}")
    verdict = slurm.json("why", *target)
    assert (verdict["stuck"], verdict["culprit"]) == (False, ""), verdict
    line = TORCH.read_text().split("mean = ")[0].count("\n") + 1
    assert slurm.cli("break", *target, f"slurm_torch.py:{line}", "--ranks", "5").returncode == 0
    wait_for(lambda: slurm.json("list", *target)["stops"], "it stops")
    verdict = slurm.json("why", *target)
    assert (verdict["stuck"], verdict["culprit"]) == (True, "5"), verdict
    assert verdict["cause"] == "at-breakpoint"
    assert verdict["waiting"] == "0-4,6-7"
    assert slurm.cli("break", *target, "--clear").returncode == 0
    assert slurm.cli("continue", *target).returncode == 0


@pytest.mark.extra
@pytest.mark.slow
def test_break_list_cast_continue(slurm: SlurmCluster, training: str) -> None:
    """A break in a rank far away stops it, and it goes on when told to."""
    target = ("-t", f"slurm:{training}")
    line = TORCH.read_text().split("mean = ")[0].count("\n") + 1
    result = slurm.cli("break", *target, f"slurm_torch.py:{line}", "--ranks", "3")
    assert result.returncode == 0, result.stderr
    stops: list[Any] = []
    wait_for(lambda: stops.extend(slurm.json("list", *target)["stops"]) or stops, "it stops")
    assert [stop["rank"] for stop in stops] == [3]
    assert slurm.cli("cast", *target, "3", "p loss.item()").stdout.split() == ["3", "28.0"]
    assert slurm.cli("break", *target, "--clear").returncode == 0
    assert slurm.cli("continue", *target, "3").stdout.split() == ["3", "resumed"]


@pytest.mark.extra
@pytest.mark.slow
def test_long_answers(slurm: SlurmCluster, training: str) -> None:
    """A megabyte from each of four nodes at once comes back whole, through lines that srun
    does not cut."""
    job = slurm.submit_ranks(STOPS, "steps", options=("-N4", "-n4"))
    slurm.wait_for_ranks(job, 4, "steps")
    target = ("-t", f"slurm:{job}")
    wait_for(lambda: len(slurm.json("list", *target)["stops"]) == 4, "all stop")
    text = "".join(random.Random(7).choices("0123456789abcdef", k=1_000_000))
    command = "import random; print(''.join(random.Random(7).choices('0123456789abcdef', k=10**6)))"
    groups = slurm.json("cast", *target, "--timeout", 20, "all", command)["groups"]
    slurm.call("scancel", job)
    assert [group["ranks"] for group in groups] == ["0-3"]
    assert groups[0]["output"].strip() == text


def test_save(slurm: SlurmCluster, training: str, tmp_path: Path) -> None:
    """What was seen can be opened again where there is no Slurm."""
    result = slurm.cli("save", "-t", f"slurm:{training}", tmp_path / "seen")
    assert result.returncode == 0, result.stderr
    shown = slurm.cli("ps", "-t", f"snapshot:{tmp_path / 'seen'}", env={"PATH": ""}).stdout
    assert f"job slurm-{training}   8 ranks on 4 nodes" in shown


@pytest.mark.slow
def test_titled_workers_without_agents(slurm: SlurmCluster) -> None:
    """An engine on four nodes, whose workers' titles lie over their environments: its workers are
    the ranks, by their coordinates, and the processes that srun started are launchers."""
    program = PROGRAMS / "titled_engine.py"
    words = (sys.executable, program, "sglang", "2")
    job = slurm.submit(*words, options=("-N4", "--ntasks-per-node=1"))
    wait_for(lambda: slurm.state(job) == "RUNNING", "it runs")
    expected = {"scheduler": [*range(8)], "launcher": 4, "helper": 4}
    with slurm.session(f"slurm:{job}") as session:
        seen: dict[str, Any] = {}

        def is_right() -> bool:
            seen.clear()
            with contextlib.suppress(NoJob):  # its processes have not started yet
                seen.update(recorded_rosters.summaries(session.roster(where=False)))
            return seen == {f"slurm-{job}": expected}

        wait_for(is_right, lambda: seen)
        places = {rank.number: rank.coordinates for rank in session.job()}
        assert places == {number: {"tp": number} for number in range(8)}
        if recorded_rosters.RECORDING:
            recorded_rosters.record("titled_engine_under_slurm", session, {job: "17"})
    slurm.call("scancel", job)


# --- which job ----------------------------------------------------------------------------


def test_step(slurm: SlurmCluster, serving: str) -> None:
    """A step can be named; one that does not run is an error that names those that do."""
    result = slurm.cli("ps", "-t", f"slurm:{serving}.99")
    assert result.returncode == 2
    assert f"job {serving} has no step 99" in result.stderr
    (step,) = re.findall(r"running steps: ([0-9.]+) \(python", result.stderr)
    assert slurm.roster(step)["jobs"][0]["count"] == 2


def test_named_job_inside_a_slurm_job(slurm: SlurmCluster, training: str) -> None:
    """On the node itself it has its own name, and the Slurm job is said to be around it."""
    words = (RANKDBG, "run", "--job", "nested", "--", sys.executable, BEHAVE, "waits")
    job = slurm.submit(*words, options=("-N1", "-n1"))

    def inside() -> dict[str, str]:
        found = slurm.json("ps", "-t", "local")["jobs"]
        return {each["job"]: each["inside"] for each in found}

    wait_for(lambda: inside().get("nested") == f"slurm-{job}", inside)
    assert slurm.json("ps", "-t", "local", "--job", f"slurm-{job}")["jobs"][0]["job"] == "nested"
    slurm.call("scancel", job)


def test_several_jobs_to_choose_from(slurm: SlurmCluster, training: str, serving: str) -> None:
    """Without a number and with several jobs, each is listed as it can be typed."""
    result = slurm.cli("ps", "-t", "slurm:")
    assert result.returncode == 2
    assert "you have 2 running Slurm jobs" in result.stderr
    assert f"-t slurm:{training}  training, on node-[0-3] for " in result.stderr
    assert f"-t slurm:{serving}  serving, on node-[0-1] for " in result.stderr


def test_found_inside_the_allocation(slurm: SlurmCluster, serving: str) -> None:
    """In a step of the job the target is found by itself, and said."""
    words = (sys.executable, "-m", "rankdbg", "ps", "--json")
    options = ("--overlap", "--mpi=none", "-N1", "-n1", f"--jobid={serving}")
    done = slurm.run("srun", *options, *words)
    assert f"target: slurm:{serving} (inside its allocation" in done.stderr
    assert json.loads(done.stdout)["jobs"][0]["count"] == 2


@pytest.fixture
def array(slurm: SlurmCluster, training: str) -> Iterator[str]:
    """Two elements, each with a rank that `srun rankdbg run` has started."""
    words = (RANKDBG, "run", "--", sys.executable, BEHAVE, "waits")
    array = slurm.submit(*words, options=("-N1", "-n1", "--array=3-4"))
    yield array
    slurm.call("scancel", array)


@pytest.mark.extra
def test_element_of_an_array(slurm: SlurmCluster, array: str) -> None:
    """An element of an array has the name that squeue shows; its own number means it too, as a
    target and as a job, here and from the login node. So does its step."""
    slurm.wait_for_ranks(f"{array}_4", 1, "waits")
    slurm.wait_for_ranks(f"{array}_3", 1, "waits")
    result = slurm.cli("ps", "-t", f"slurm:{array}")
    assert f"-t slurm:{array}_3" in result.stderr
    assert f"-t slurm:{array}_4" in result.stderr
    own = slurm.call("squeue", "-h", "-j", f"{array}_3", "-o", "%A")
    assert own not in (array, f"{array}_3")
    for words in (
        ("-t", f"slurm:{array}_3"),
        ("-t", f"slurm:{own}"),
        ("-t", f"slurm:{array}_3.0"),
        ("-t", f"slurm:{own}.0", "--job", own),
        ("-t", f"slurm:{array}_3", "--job", f"slurm-{own}"),
        ("-t", "local", "--job", f"slurm-{array}_3"),
        ("-t", "local", "--job", f"{array}_3"),
        ("-t", "local", "--job", f"slurm-{own}"),
        ("-t", "local", "--job", own),
    ):
        found = slurm.json("ps", *words)
        assert [job["job"] for job in found["jobs"]] == [f"slurm-{array}_3"], words
        assert len(found["ranks"]) == 1


def test_step_of_an_element_that_knows_its_own_number_alone(
    slurm: SlurmCluster, array: str
) -> None:
    """It belongs to the same job, under one name."""
    slurm.wait_for_ranks(f"{array}_3", 1, "waits")
    own = slurm.call("squeue", "-h", "-j", f"{array}_3", "-o", "%A")
    into = ("srun", "--mpi=none", "--overlap", f"--jobid={own}", "-N1", "-n1")
    later = subprocess.Popen([*into, sys.executable, str(BEHAVE), "waits"], env=slurm.environment)
    try:

        def ranks() -> dict[str, int]:
            jobs = slurm.json("ps", "-t", "local")["jobs"]
            return {
                job["job"]: job["count"] for job in jobs if own in job["job"] or array in job["job"]
            }

        expected = {f"slurm-{array}_3": 2, f"slurm-{array}_4": 1}
        wait_for(lambda: ranks() == expected, ranks)
    finally:
        later.terminate()
        later.wait()


def test_jobs_that_cannot_be_looked_into(slurm: SlurmCluster, training: str) -> None:
    """One sentence for each reason, with what to do, and no traceback."""
    ended = slurm.submit("true", options=("-N1",))
    theirs = slurm.submit("sleep", "600", options=("-N1", "--uid=nobody", "--chdir=/"))
    wait_for(lambda: slurm.state(ended) == "COMPLETED", "the job has ended")
    wait_for(lambda: slurm.state(theirs) == "RUNNING", "their job runs")
    pending = slurm.submit("true", options=("-N4", "--exclusive"))
    expected = {
        "999": ("Slurm has no job 999", "Invalid job id", "squeue --me"),
        "abc": ("invalid Slurm job 'abc'", "slurm:JOB.STEP"),
        pending: (f"job {pending} is not running: its state is PENDING (", "squeue --start"),
        ended: (f"job {ended} has ended: its state is COMPLETED", "scontrol show job"),
        theirs: (f"job {theirs} belongs to nobody", "sudo -u nobody rankdbg ps"),
    }
    for job, parts in expected.items():
        result = slurm.cli("ps", "-t", f"slurm:{job}")
        assert result.returncode == 2
        assert all(part in result.stderr for part in parts), result.stderr
    slurm.call("scancel", pending, theirs)


def test_without_slurm(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Where there is no Slurm, or none that works, that is said in one sentence."""
    result = slurm.cli("ps", "-t", "slurm:1", env={"PATH": str(tmp_path)})
    assert result.returncode == 2
    assert "squeue not found: slurm: targets need the Slurm commands" in result.stderr
    assert "login node" in result.stderr
    (tmp_path / "slurm.conf").write_text("nonsense\n")
    result = slurm.cli("ps", "-t", "slurm:", env={"SLURM_CONF": str(tmp_path / "slurm.conf")})
    assert result.returncode == 2
    assert result.stderr.startswith("error: squeue "), result.stderr
