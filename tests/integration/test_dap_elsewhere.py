"""One attach for ranks on other machines, and in other Pythons: ssh, Slurm, no debugpy there.

On Ray: test_cluster_ray.py, which has a cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from editor import LOOP, DapServer, Editor, evaluate, frames, line_of
from jobs import PROGRAMS, Job, rankdbg
from kubernetes_cluster import Kubernetes
from slurm_cluster import SlurmCluster, running_cluster
from ssh_hosts import Hosts
from tiers import chiefly
from waiting import wait_for

pytest.importorskip("debugpy", reason="needs debugpy")

STATE = PROGRAMS / "dap_state.py"
PYENV = sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[0-9].*/bin/python"))
_OURS = "{}.{}.".format(*sys.version_info)
EVERY_ONE = [
    Path(sys.executable),
    *(path for path in PYENV if not path.parts[-3].startswith(_OURS)),
]
ENDS = [EVERY_ONE[0], EVERY_ONE[-1]]  # this one and the newest: the two ways to trace


def stop_all(server: DapServer, count: int) -> Editor:
    """Every rank at a breakpoint, and looked into."""
    editor = Editor(server)
    editor.break_at(LOOP, line_of(LOOP, "in inner"))
    for rank, session in editor.attach_all(count).items():
        thread = session.event("stopped")["threadId"]
        assert frames(session, thread)[0] == ("inner", line_of(LOOP, "in inner"))
        assert evaluate(session, thread, "RANK") == str(rank)
        session.ask("next", threadId=thread)
        assert session.event("stopped")["reason"] == "step"
    return editor


# --- ssh ------------------------------------------------------------------------------------------


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with Hosts(tmp_path / "hosts", "host-1", "host-2") as hosts:
        for rank, name in enumerate(hosts.names):
            hosts.start_rank(name, "two-hosts", rank, 2, LOOP, "loops")
        yield hosts


def test_ranks_on_two_hosts(hosts: Hosts) -> None:
    """Through ssh alone: one attach, a session for each, named with its host; a host that goes
    down takes its own session with it."""
    environment = {**hosts.environment(), "RANKDBG_TARGET": hosts.target}
    wait_for(
        lambda: rankdbg("ps", env=environment).stdout.count("loops") >= 1,
        lambda: rankdbg("ps", env=environment),
    )
    with DapServer(environment) as server:
        editor = stop_all(server, 2)
        assert [name.rpartition(" · ")[2] for name in sorted(editor.sessions)] == [
            "host-1",
            "host-2",
        ]
        sessions = editor.living()
        hosts.stop("host-2")
        sessions[1].event("terminated")
        wait_for(lambda: "host-2: session ended" in editor.parent.console(), editor.parent.console)
        assert len(sessions[0].ask("threads")["threads"]) == 1
        editor.leave()


# --- Slurm ----------------------------------------------------------------------------------------


@pytest.fixture
def slurm() -> Iterator[SlurmCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.mark.slow
def test_ranks_of_a_slurm_job(slurm: SlurmCluster) -> None:
    """Through one srun, whose lines are short, and whose stdin all nodes hear."""
    options = ("-N2", "--ntasks-per-node=1", "--job-name=dap")
    job = slurm.submit_ranks(LOOP, "loops", options=options)
    slurm.wait_for_ranks(job, 2, "loops")
    with DapServer(slurm.environment, "-t", f"slurm:{job}") as server:
        editor = stop_all(server, 2)
        assert editor.say("ask all RANK // 2") == "0-1  0"
        editor.leave()


# --- Kubernetes -----------------------------------------------------------------------------------


@pytest.mark.extra
def test_ranks_in_two_pods(tmp_path: Path) -> None:
    """Through kubectl exec, a channel that waits for its turn."""
    pods = Kubernetes(tmp_path / "kubernetes")
    try:
        for rank in range(2):
            container = {
                "command": [sys.executable, str(LOOP), "loops"],
                "environment": {"RANKDBG": "1", "RANK": str(rank), "WORLD_SIZE": "2"},
            }
            labels = {"app": "dap", "batch.kubernetes.io/job-name": "dap"}
            pods.start(f"worker-{rank}", {"main": container}, labels)
        environment = {**pods.environment(), "RANKDBG_TARGET": "k8s:train/app=dap"}
        wait_for(
            lambda: rankdbg("ps", env=environment).stdout.count("loops") >= 1,
            lambda: rankdbg("ps", env=environment),
        )
        with DapServer(environment) as server:
            editor = stop_all(server, 2)
            assert editor.say("ask all RANK // 2") == "0-1  0"
            editor.leave()
    finally:
        pods.end()


# --- other Pythons --------------------------------------------------------------------------------


@pytest.mark.parametrize("python", chiefly(PYENV[:1], PYENV), ids=lambda path: path.parents[1].name)
def test_debugpy_is_brought_along(job: Job, python: Path) -> None:
    """To a Python that has none; when the editor has left, the rank goes on."""
    job.start(python, LOOP, "loops", env={"RANK": "0", "WORLD_SIZE": "1"})
    job.wait_for(lambda ranks: [r.where.function for r in ranks if r.where] in (["loops"],))
    with DapServer(job) as server:
        for _ in range(2):
            editor = stop_all(server, 1)
            editor.leave()
    (brought,) = [path for path in job.directory.iterdir() if path.name.startswith("debugpy-")]
    assert (brought / "site-packages/debugpy").is_dir()

    def step() -> int:
        return int(job.json("ask", "0", "step", "--frame", "loops")["groups"][0]["value"])

    before = step()
    wait_for(lambda: step() > before, "it goes on")


@pytest.mark.parametrize("python", chiefly(ENDS, EVERY_ONE), ids=lambda p: p.parts[-3])
def test_process_is_as_before_when_the_editor_has_left(job: Job, python: Path) -> None:
    """Also after a breakpoint was hit, and with what VS Code asks for: no thread and no frame is
    traced, no function watched, and the streams and functions that a debugger replaces are the
    program's."""
    job.start(python, STATE, env={"RANK": "0", "WORLD_SIZE": "1"})
    job.wait_for(lambda ranks: [r.where.function for r in ranks if r.where] in (["loops"],))

    def left_behind() -> str:
        found = job.json("ask", "0", "left_behind()", "--frame", "loops")
        return str(found["groups"][0]["value"])

    assert left_behind() == "[]"
    with DapServer(job) as server:
        editor = Editor(server, debugOptions=["RedirectOutput", "ShowReturnValue"])
        here = {"line": line_of(STATE, "in inner"), "condition": "name == 'the main thread'"}
        editor.break_at(STATE, here)
        session = editor.attach_all(1)[0]
        for _ in range(2):
            thread = session.event("stopped")["threadId"]
            session.ask("next", threadId=thread)
            session.event("stopped", lambda body: body["reason"] == "step")
            session.ask("continue", threadId=thread)
        assert "sys.stdout" in left_behind()
        editor.leave()
        wait_for(lambda: left_behind() == "[]", left_behind)
