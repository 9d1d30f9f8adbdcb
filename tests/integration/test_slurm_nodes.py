"""The one srun through which the nodes of a Slurm job are reached, and nodes and srun that fail."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jobs import PROGRAMS
from rankdbg.clusters import Options
from rankdbg.errors import RankdbgError
from rankdbg.session import Session
from rankdbg.types import Answer, Silence
from slurm_cluster import SlurmCluster, running_cluster
from tiers import chiefly
from waiting import wait_for

BEHAVE = PROGRAMS / "behave.py"


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    # The node processes of a look outlive the job that is cancelled for so long.
    with running_cluster(KillWait=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def eight(slurm: SlurmCluster) -> str:
    """Eight ranks, two on each node."""
    options = ("-N4", "--ntasks-per-node=2", "--no-kill")
    job = slurm.submit_ranks(BEHAVE, *["waits"] * 8, options=options)
    slurm.wait_for_ranks(job, 8, "waits")
    return job


@pytest.fixture(scope="module")
def two(slurm: SlurmCluster, eight: str) -> str:
    """Two ranks, on two of the nodes that the eight use too."""
    options = ("-N2", "--ntasks-per-node=1")
    job = slurm.submit_ranks(BEHAVE, "waits", "waits", options=options)
    slurm.wait_for_ranks(job, 2, "waits")
    return job


@contextlib.contextmanager
def open_session(
    slurm: SlurmCluster, job: str, options: Options | None = None
) -> Iterator[Session]:
    with slurm.session(f"slurm:{job}", options) as session:
        yield session


# --- srun ---------------------------------------------------------------------------------


@pytest.mark.extra
def test_options_for_srun(slurm: SlurmCluster, two: str) -> None:
    """They are passed on; one that srun refuses is reported in srun's words."""
    with open_session(slurm, two, Options(srun=("--job-name=looking",))) as session:
        assert len(session.roster().processes) >= 2
        assert "looking" in slurm.call("squeue", "-h", "--steps", "-o", "%j")
    result = slurm.cli("ps", "-t", f"slurm:{two}", "--srun=--nonsense")
    assert result.returncode == 2
    assert "srun: unrecognized option '--nonsense'" in result.stderr


def test_one_step_for_all_nodes(slurm: SlurmCluster, eight: str) -> None:
    """A look is one step of the job, however many nodes it has."""
    with open_session(slurm, eight) as session:
        session.roster()
        session.roster()
        steps = slurm.call("squeue", "-h", "--steps", "-j", eight, "-o", "%j|%N")
        assert steps.splitlines().count("rankdbg-node|node-[0-3]") == 1
        assert len(slurm.node_processes()) == 4


def nothing_is_left(slurm: SlurmCluster) -> None:
    wait_for(lambda: not slurm.node_processes(), "the node processes have ended")
    wait_for(lambda: not slurm.landed(), "their directories are gone")


def test_killed_client_leaves_nothing(slurm: SlurmCluster, eight: str) -> None:
    """kill -9 of the client: node processes and what was sent to them are gone in seconds."""
    code = (
        "import sys; from rankdbg.session import Session; from rankdbg.clusters import Options;"
        "from rankdbg.clusters.slurm import srun;"
        "srun.STALLED_SECONDS = 15.0;"
        "session = Session(sys.argv[1], options=Options(python=sys.argv[2]));"
        "print(len(session.roster().processes), flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, f"slurm:{eight}", bare_python()]
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


@pytest.mark.extra
def test_killed_srun_is_started_again(slurm: SlurmCluster, two: str) -> None:
    """srun killed in the middle: nothing stays behind, and a shell's session reaches all
    nodes again through one new srun."""
    with open_session(slurm, two) as session:
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


@pytest.mark.slow
def test_job_that_ends_while_looked_at(slurm: SlurmCluster, eight: str) -> None:
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
            return sum(f"job {job} has ended: its state is C" in reason for reason in reasons) == 2

        wait_for(all_know, "the ranks are silent because the job has ended")


# --- nodes that fail ----------------------------------------------------------------------


@pytest.fixture
def lost(slurm: SlurmCluster, eight: str) -> Iterator[str]:
    """A node whose slurmd will be killed, and is there again afterwards."""
    yield "node-2"
    slurm.kill_node("node-2")
    slurm.start_node("node-2")
    wait_for(lambda: "*" not in slurm.call("sinfo", "-h", "-N", "-o", "%t"), "it is back")


@pytest.mark.extra
@pytest.mark.slow
def test_slurmd_killed_in_the_middle(slurm: SlurmCluster, eight: str, lost: str) -> None:
    """Who has been reached stays reached; who comes later is told of the node that has not
    answered, in srun's words, and has the answers of the others."""
    with open_session(slurm, eight) as session:
        ranks = session.job()
        slurm.kill_node(lost)
        assert all(isinstance(a, Answer) for a in session.evaluate(ranks, "loss"))
    found = slurm.json("ps", "-t", f"slurm:{eight}")
    assert list(found["no_response_nodes"]) == [lost]
    # It says so after some ten seconds, if it gets that far in time.
    srun_says, late = "srun: Communication connection failure", "no response within 15 s"
    assert found["no_response_nodes"][lost].startswith((f"{lost}: {srun_says}", f"{lost} {late}"))
    assert sorted(rank["rank"] for rank in found["ranks"]) == [0, 1, 2, 3, 6, 7]
    nothing_is_left(slurm)


@pytest.mark.slow
def test_frozen_slurmd(slurm: SlurmCluster, eight: str, lost: str) -> None:
    """A slurmd that takes the connection and says nothing does not hold the others up past
    the deadline."""
    slurm.freeze_node(lost)
    found = slurm.json("ps", "-t", f"slurm:{eight}")
    assert list(found["no_response_nodes"]) == [lost]
    assert f"cannot reach {lost}: no response within 15 s" in found["no_response_nodes"][lost]
    assert len(found["ranks"]) == 6
    nothing_is_left(slurm)


def test_node_that_slurm_knows_to_be_lost(slurm: SlurmCluster, eight: str, lost: str) -> None:
    """It is left out, and named at once with what Slurm says about it."""
    slurm.kill_node(lost)  # while it lives, it soon shows again that it does
    slurm.call("scontrol", "update", f"nodename={lost}", "state=noresp")
    found = slurm.json("ps", "-t", f"slurm:{eight}")
    assert found["no_response_nodes"] == {
        lost: f"Slurm reports {lost} as MIXED (it does not respond)"
    }
    assert len(found["ranks"]) == 6


@pytest.mark.slow
@pytest.mark.parametrize("unread", chiefly([True], [False, True]))
def test_node_lost_in_the_middle(slurm: SlurmCluster, eight: str, unread: bool) -> None:
    """When the step's daemon on a node is killed, only the ranks there are silent, with a reason,
    also if it had not read all that it was sent (its connection is then reset, not closed); and
    a session that reopens reaches them again."""
    with open_session(slurm, eight) as session:
        session.reopens = True
        session.timeout = 8.0
        ranks = session.job()
        others = set(slurm.node_processes())
        node, shell, daemon = step_on(slurm, "node-1")
        if unread:
            os.kill(daemon, signal.SIGSTOP)
            session._channel("node-1").begin({"ask": "stops", "processes": []})
            assert_only_silent("node-1", session.evaluate(ranks, "loss"))
        os.kill(daemon, signal.SIGKILL)
        os.kill(shell, signal.SIGKILL)
        if not unread:
            assert_only_silent("node-1", session.evaluate(ranks, "loss"))

        def all_answer() -> bool:
            answers = session.evaluate(ranks, "loss")
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


@pytest.mark.extra
@pytest.mark.slow
def test_much_is_asked_after_a_node_was_lost(slurm: SlurmCluster, eight: str) -> None:
    """srun stops to pass anything on after 2 MB; the session goes on with another before."""
    with open_session(slurm, eight) as session:
        session.reopens = True
        ranks = session.job()
        first = set(slurm.processes("srun\0--jobid"))
        for pid in step_on(slurm, "node-1")[1:]:
            os.kill(pid, signal.SIGKILL)
        session.timeout = 8.0
        assert_only_silent("node-1", session.evaluate(ranks, "loss"))
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
    assert {each.reason for each in silent} == {f"{node} did not respond in time"}
