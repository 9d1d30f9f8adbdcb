"""A real Slurm of four nodes, with jobs in it, looked at from its login node."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS
from profilers import Nsight, needs_nsys
from rankdbg.clusters import Options, channel, srun
from rankdbg.errors import RankdbgError
from rankdbg.session import Session
from rankdbg.types import Answer, Silence
from slurm_cluster import SlurmCluster, running_cluster
from waiting import wait_for

TORCH = PROGRAMS / "slurm_torch.py"
BEHAVE = PROGRAMS / "behave.py"
STOPS = PROGRAMS / "stops.py"
# Eight ranks of torch start on as many processors as there are.
pytestmark = pytest.mark.timeout(240)


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


@contextlib.contextmanager
def open_session(
    slurm: SlurmCluster, job: str, options: Options | None = None
) -> Iterator[Session]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SLURM_CONF", "RANKDBG_DIR", "TMPDIR"):
            patch.setenv(name, slurm.environment[name])
        # On a busy machine one node is later than the others, and they would be reached anew.
        patch.setattr(srun, "STALLED_SECONDS", channel.CONNECT_SECONDS)
        with Session(f"slurm:{job}", options=options or Options()) as session:
            yield session


# --- every verb ---------------------------------------------------------------------------


def test_ps(slurm: SlurmCluster, training: str) -> None:
    """All ranks on all nodes, as one job with the number that Slurm gave it."""
    found = slurm.json("ps", "-t", f"slurm:{training}")
    assert found["silent_nodes"] == {}
    assert [job["job"] for job in found["jobs"]] == [f"slurm-{training}"]
    places = {rank["rank"]: rank["host"] for rank in found["ranks"]}
    assert places == {rank: f"node-{rank // 2}" for rank in range(8)}
    assert {rank["world"] for rank in found["ranks"]} == {8}


def test_profile(slurm: SlurmCluster, training: str, tmp_path: Path) -> None:
    """Operators of all ranks on all nodes come home as one time line, with clocks compared."""
    options = ("-t", f"slurm:{training}", "--seconds", "1", "--output", tmp_path / "out")
    traced = slurm.json("profile", "--kind", "torch", *options)
    assert traced["silent"] == []
    assert sorted(traced["clocks"]) == [f"node-{number}" for number in range(4)]
    assert all(clock["error"] < 1 for clock in traced["clocks"].values())
    with gzip.open(tmp_path / "out/trace.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert names == [f"rank {rank} · node-{rank // 2}" for rank in range(8)]


def test_only_this_job(slurm: SlurmCluster, serving: str) -> None:
    """Another job of the same user on the same nodes is not shown."""
    found = slurm.json("ps", "-t", f"slurm:{serving}")
    assert [job["job"] for job in found["jobs"]] == [f"slurm-{serving}"]
    assert sorted(rank["rank"] for rank in found["ranks"]) == [0, 1]


def test_two_jobs_at_once(slurm: SlurmCluster, training: str, serving: str) -> None:
    """Two targets are one roster with two jobs."""
    found = slurm.json("ps", "-t", f"slurm:{training}", "-t", f"slurm:{serving}")
    counts = {job["job"]: job["count"] for job in found["jobs"]}
    assert counts == {f"slurm-{training}": 8, f"slurm-{serving}": 2}


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
        [sys.executable, "-m", "rankdbg", "collect", "all", str(home), "--follow", "0.5"],
        env={**slurm.environment, "RANKDBG_TARGET": f"slurm:{job}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    described = wait_for(lambda: list(home.rglob("behave_*.json")), "the first look")
    assert json.loads(described[0].read_text())["rank"] == 1
    slurm.cancel(job)
    told = following.communicate(timeout=60)[0]
    assert list(work.rglob("behave_*.nsys-rep")), told
    assert (following.returncode, "into" in told) == (1, True)
    assert "has ended: it is C" in told  # CANCELLED, or still COMPLETING


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


def test_why(slurm: SlurmCluster, training: str) -> None:
    """A healthy job is not accused; one rank that stands on one node is, by its name."""
    target = ("-t", f"slurm:{training}")
    verdict = slurm.json("why", *target)
    assert (verdict["stuck"], verdict["guilty"]) == (False, ""), verdict
    line = TORCH.read_text().split("mean = ")[0].count("\n") + 1
    assert slurm.cli("break", *target, f"slurm_torch.py:{line}", "--ranks", "5").returncode == 0
    wait_for(lambda: slurm.json("list", *target)["stops"], "it stops")
    verdict = slurm.json("why", *target)
    assert (verdict["stuck"], verdict["guilty"]) == (True, "5"), verdict
    assert verdict["cause"] == "at-breakpoint"
    assert verdict["victims"] == "0-4,6-7"
    assert slurm.cli("break", *target, "--clear").returncode == 0
    assert slurm.cli("continue", *target).returncode == 0


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
    assert slurm.cli("continue", *target, "3").stdout.split() == ["3", "goes", "on"]


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


# --- which job ----------------------------------------------------------------------------


def test_step(slurm: SlurmCluster, serving: str) -> None:
    """A step can be named; one that does not run is an error that names those that do."""
    result = slurm.cli("ps", "-t", f"slurm:{serving}.99")
    assert result.returncode == 2
    assert f"job {serving} has no step 99" in result.stderr
    (step,) = re.findall(r"steps that run: ([0-9.]+) \(python", result.stderr)
    assert slurm.json("ps", "-t", f"slurm:{step}")["jobs"][0]["count"] == 2


def test_several_jobs_to_choose_from(slurm: SlurmCluster, training: str, serving: str) -> None:
    """Without a number and with several jobs, each is listed as it can be typed."""
    result = slurm.cli("ps", "-t", "slurm:")
    assert result.returncode == 2
    assert "2 jobs of yours run under Slurm" in result.stderr
    assert f"-t slurm:{training}  training, on node-[0-3] for " in result.stderr
    assert f"-t slurm:{serving}  serving, on node-[0-1] for " in result.stderr


def test_found_inside_the_allocation(slurm: SlurmCluster, serving: str) -> None:
    """In a step of the job the target is found by itself, and said."""
    words = (sys.executable, "-m", "rankdbg", "ps", "--json")
    options = ("--overlap", "--mpi=none", "-N1", "-n1", f"--jobid={serving}")
    done = slurm.run("srun", *options, *words)
    assert f"target: slurm:{serving} (this is inside of its allocation" in done.stderr
    assert json.loads(done.stdout)["jobs"][0]["count"] == 2


def test_element_of_an_array(slurm: SlurmCluster, training: str) -> None:
    """An element of an array has the name that squeue shows."""
    options = ("-N1", "-n1", "--array=3-4")
    array = slurm.submit_ranks(BEHAVE, "waits", options=options)
    try:
        slurm.wait_for_ranks(f"{array}_4", 1, "waits")
        found = slurm.json("ps", "-t", f"slurm:{array}_4")
        assert [job["job"] for job in found["jobs"]] == [f"slurm-{array}_4"]
        result = slurm.cli("ps", "-t", f"slurm:{array}")
        assert f"-t slurm:{array}_3" in result.stderr
        assert f"-t slurm:{array}_4" in result.stderr
    finally:
        slurm.call("scancel", array)


def test_jobs_that_cannot_be_looked_into(slurm: SlurmCluster, training: str) -> None:
    """One sentence for each reason, with what to do, and no traceback."""
    ended = slurm.submit("true", options=("-N1",))
    theirs = slurm.submit("sleep", "600", options=("-N1", "--uid=nobody", "--chdir=/"))
    wait_for(lambda: slurm.state(ended) == "COMPLETED", "the job has ended")
    wait_for(lambda: slurm.state(theirs) == "RUNNING", "their job runs")
    pending = slurm.submit("true", options=("-N4", "--exclusive"))
    expected = {
        "999": ("Slurm does not show a job 999", "Invalid job id", "squeue --me"),
        "abc": ("'abc' is not a job of Slurm", "slurm:JOB.STEP"),
        pending: (f"job {pending} does not run: it is PENDING (", "squeue --start"),
        ended: (f"job {ended} has ended: it is COMPLETED", "scontrol show job"),
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
    assert "there is no squeue here" in result.stderr
    assert "login node" in result.stderr
    (tmp_path / "slurm.conf").write_text("nonsense\n")
    result = slurm.cli("ps", "-t", "slurm:", env={"SLURM_CONF": str(tmp_path / "slurm.conf")})
    assert result.returncode == 2
    assert result.stderr.startswith("error: squeue "), result.stderr


# --- srun ---------------------------------------------------------------------------------


def test_options_for_srun(slurm: SlurmCluster, serving: str) -> None:
    """They are passed on; one that srun refuses is reported in srun's words."""
    with open_session(slurm, serving, Options(srun=("--job-name=looking",))) as session:
        assert len(session.roster().processes) >= 2
        assert "looking" in slurm.call("squeue", "-h", "--steps", "-o", "%j")
    result = slurm.cli("ps", "-t", f"slurm:{serving}", "--srun=--nonsense")
    assert result.returncode == 2
    assert "srun: unrecognized option '--nonsense'" in result.stderr


def test_one_step_for_all_nodes(slurm: SlurmCluster, training: str) -> None:
    """A look is one step of the job, however many nodes it has."""
    with open_session(slurm, training) as session:
        session.roster()
        session.roster()
        steps = slurm.call("squeue", "-h", "--steps", "-j", training, "-o", "%j|%N")
        assert steps.splitlines().count("rankdbg|node-[0-3]") == 1
        assert len(slurm.node_processes()) == 4


def nothing_is_left(slurm: SlurmCluster) -> None:
    wait_for(lambda: not slurm.node_processes(), "the node processes have ended")
    wait_for(lambda: not slurm.landed(), "their directories are gone")


def test_killed_client_leaves_nothing(slurm: SlurmCluster, training: str) -> None:
    """kill -9 of the client: node processes and what was sent to them are gone in seconds."""
    code = (
        "import sys; from rankdbg.session import Session; from rankdbg.clusters import Options, srun;"
        "srun.STALLED_SECONDS = 15.0;"
        "session = Session(sys.argv[1], options=Options(python=sys.argv[2]));"
        "print(len(session.roster().processes), flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, f"slurm:{training}", bare_python()]
    client = subprocess.Popen(
        words, env=slurm.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with client:
        assert client.stdout is not None
        assert int(client.stdout.readline()) >= 8
        assert len(slurm.node_processes()) == 4
        assert len(slurm.landed()) == 4
        client.kill()
    nothing_is_left(slurm)


def bare_python() -> str:
    """One that has no rankdbg."""
    return os.path.realpath(sys.executable)


def test_killed_srun_is_started_again(slurm: SlurmCluster, serving: str) -> None:
    """srun killed in the middle: nothing stays behind, and a shell's session reaches all
    nodes again through one new srun."""
    with open_session(slurm, serving) as session:
        session.reopens = True
        assert len(session.job()) == 2
        before = set(slurm.node_processes())
        sruns = slurm.processes("srun\0--jobid")
        (ours,) = [pid for pid in sruns if slurm.parents([pid]) == {os.getpid()}]
        os.kill(ours, signal.SIGKILL)
        gone = "those that hear nothing any more have ended"
        wait_for(lambda: not before & set(slurm.node_processes()), gone, 40)

        def answers() -> bool:
            try:
                return len(session.job()) == 2
            except RankdbgError:
                return False

        wait_for(answers, "both answer again")
        assert len(slurm.node_processes()) == 2
        assert len(slurm.processes("srun\0--jobid", "--nodes=2\0")) == len(sruns)
    nothing_is_left(slurm)


def test_job_that_ends_while_looked_at(slurm: SlurmCluster, training: str) -> None:
    """Its ranks are silent, with what Slurm says about the job."""
    job = slurm.submit_ranks(BEHAVE, "waits", "waits", options=("-N2", "-n2"))
    slurm.wait_for_ranks(job, 2, "waits")
    with open_session(slurm, job) as session:
        ranks = session.job()
        slurm.cancel(job)
        reasons: list[str] = []

        def all_know() -> bool:
            answers = session.evaluate(ranks, "loss")
            reasons[:] = [a.reason for a in answers if isinstance(a, Silence)]
            return sum(f"job {job} has ended: it is C" in reason for reason in reasons) == 2

        wait_for(all_know, "the ranks are silent because the job has ended")


# --- nodes that fail ----------------------------------------------------------------------


@pytest.fixture
def lost(slurm: SlurmCluster, training: str) -> Iterator[str]:
    """A node whose slurmd will be killed, and is there again afterwards."""
    yield "node-2"
    slurm.kill_node("node-2")
    slurm.start_node("node-2")
    wait_for(lambda: "*" not in slurm.call("sinfo", "-h", "-N", "-o", "%t"), "it is back")


@pytest.mark.slow
def test_slurmd_killed_in_the_middle(slurm: SlurmCluster, training: str, lost: str) -> None:
    """Who has been reached stays reached; who comes later is told of the node that has not
    answered, in srun's words, and has the answers of the others."""
    with open_session(slurm, training) as session:
        ranks = session.job()
        slurm.kill_node(lost)
        assert all(isinstance(a, Answer) for a in session.evaluate(ranks, "dist.get_rank()"))
    found = slurm.json("ps", "-t", f"slurm:{training}")
    assert list(found["silent_nodes"]) == [lost]
    # It says so after some ten seconds, if it gets that far in time.
    srun_says, late = "srun: Communication connection failure", "could not be reached within 15 s"
    assert found["silent_nodes"][lost].startswith((f"{lost}: {srun_says}", f"{lost} {late}"))
    assert sorted(rank["rank"] for rank in found["ranks"]) == [0, 1, 2, 3, 6, 7]
    nothing_is_left(slurm)


@pytest.mark.slow
def test_frozen_slurmd(slurm: SlurmCluster, training: str, lost: str) -> None:
    """A slurmd that takes the connection and says nothing does not hold the others up past
    the deadline."""
    slurm.freeze_node(lost)
    found = slurm.json("ps", "-t", f"slurm:{training}")
    assert list(found["silent_nodes"]) == [lost]
    assert f"{lost} could not be reached within 15 s" in found["silent_nodes"][lost]
    assert len(found["ranks"]) == 6
    nothing_is_left(slurm)


def test_node_that_slurm_knows_to_be_lost(slurm: SlurmCluster, training: str, lost: str) -> None:
    """It is left out, and named at once with what Slurm says about it."""
    slurm.kill_node(lost)  # while it lives, it soon shows again that it does
    slurm.call("scontrol", "update", f"nodename={lost}", "state=noresp")
    found = slurm.json("ps", "-t", f"slurm:{training}")
    assert found["silent_nodes"] == {lost: f"Slurm has {lost} as MIXED (it does not respond)"}
    assert len(found["ranks"]) == 6


@pytest.mark.slow
@pytest.mark.parametrize("unread", [False, True])
def test_node_lost_in_the_middle(slurm: SlurmCluster, training: str, unread: bool) -> None:
    """When the step's daemon on a node is killed, only the ranks there are silent, with a reason,
    also if it had not read all that it was sent (its connection is then reset, not closed); and
    a session that reopens reaches them again."""
    with open_session(slurm, training) as session:
        session.reopens = True
        session.timeout = 8.0
        ranks = session.job()
        others = set(slurm.node_processes())
        node, shell, daemon = step_on(slurm, "node-1")
        if unread:
            os.kill(daemon, signal.SIGSTOP)
            session._channel("node-1").begin({"ask": "stops", "processes": []})
            assert_only_silent("node-1", session.evaluate(ranks, "dist.get_rank()"))
        os.kill(daemon, signal.SIGKILL)
        os.kill(shell, signal.SIGKILL)
        if not unread:
            assert_only_silent("node-1", session.evaluate(ranks, "dist.get_rank()"))

        def all_answer() -> bool:
            answers = session.evaluate(ranks, "dist.get_rank()")
            silent = [answer for answer in answers if isinstance(answer, Silence)]
            assert {answer.rank.host for answer in silent} <= {"node-1"}, silent
            return not silent

        wait_for(all_answer, "it is reached again")
        assert others - {node} <= set(slurm.node_processes())


def step_on(slurm: SlurmCluster, name: str) -> tuple[int, int, int]:
    """Our node process there, the shell around it, and the daemon of the step."""
    (node,) = slurm.node_processes(f"SLURMD_NODENAME={name}\0")
    (shell,) = slurm.parents([node])
    (daemon,) = slurm.parents([shell])
    return node, shell, daemon


@pytest.mark.slow
def test_much_is_asked_after_a_node_was_lost(slurm: SlurmCluster, training: str) -> None:
    """srun stops to pass anything on after 2 MB; the session goes on with another before."""
    with open_session(slurm, training) as session:
        session.reopens = True
        ranks = session.job()
        first = set(slurm.processes("srun\0--jobid"))
        for pid in step_on(slurm, "node-1")[1:]:
            os.kill(pid, signal.SIGKILL)
        session.timeout = 8.0
        assert_only_silent("node-1", session.evaluate(ranks, "dist.get_rank()"))
        session.timeout = 10.0
        others = [rank for rank in ranks if rank.host != "node-1"]
        texts = random.Random(7)
        for _ in range(20):
            text = texts.randbytes(35_000).hex()
            answers = session.evaluate(others, f"len({text!r})")
            assert all(isinstance(answer, Answer) for answer in answers), answers
        gone = "the first srun, and its child, have ended"
        wait_for(lambda: not first & set(slurm.processes("srun\0--jobid")), gone)
    nothing_is_left(slurm)


def assert_only_silent(node: str, answers: list[Answer | Silence]) -> None:
    silent = [answer for answer in answers if isinstance(answer, Silence)]
    assert {each.rank.host for each in silent} == {node}
    assert {each.reason for each in silent} == {f"{node} did not answer in time"}
