"""A Ray cluster in trouble: a node whose memory monitor kills every worker, an environment that is
never ready, and in the end a raylet that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ray_cluster
from jobs import PROGRAMS, rankdbg
from profilers import FAKES
from rankdbg.errors import RankdbgError
from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
from rankdbg.investigations.logs.log_sources import job_logs
from rankdbg.session import Roster, Session
from rankdbg.types import ProcessKey
from rankdbg.verdicts.rules.log_rules import load_rules
from ray_cluster import HEAD, OTHER, RayCluster, wait_for
from waiting import PATIENCE

pytestmark = [
    pytest.mark.skipif(bool(ray_cluster.missing()), reason=ray_cluster.missing()),
]

# Every machine uses more than that: the monitor kills whatever starts there.
UNDER_PRESSURE = {
    "RAY_memory_usage_threshold": "0.001",
    "RAY_memory_monitor_refresh_ms": "100",
}
RULES = load_rules()


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with RayCluster(head={"CONDA_EXE": str(FAKES / "conda")}, other=UNDER_PRESSURE) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def driver(cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What it writes."""
    log = tmp_path_factory.mktemp("driver") / "driver.log"
    words = [*cluster.enter(), sys.executable, str(PROGRAMS / "ray_trouble.py"), cluster.address]
    with log.open("wb") as output:
        environment = {**os.environ, "RANKDBG": "0"}
        process = subprocess.Popen(words, env=environment, stdout=output, stderr=output)
    yield log
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def session(cluster: RayCluster, driver: Path) -> Iterator[Session]:
    with cluster.session() as session:
        yield session


def looked(session: Session, wanted: Callable[[Roster], bool]) -> Roster:
    """The roster, as soon as it is as wanted."""

    def found() -> Roster | None:
        try:
            roster = session.roster(where=False)
        except RankdbgError:  # the machine is busy
            return None
        return roster if wanted(roster) else None

    return wait_for(found)


def roles_on(roster: Roster, host: str) -> set[str]:
    return {r.role for ranks in roster.jobs().values() for r in ranks if r.host == host}


def test_healthy_node_is_shown(session: Session) -> None:
    """Ray kills rankdbg's actor on the other node, which is said with how to look there; the
    ranks of the healthy node are shown."""
    roster = looked(session, lambda roster: roles_on(roster, HEAD) == {"driver", "Trainer"})
    assert roster.silent_nodes == {
        OTHER: f"{OTHER}: Ray's memory monitor killed rankdbg's actor: the node is low on memory; "
        f"hint: to look without Ray: rankdbg ps -t ssh:{OTHER}   (or on the node: rankdbg ps -t local)"
    }


def test_no_actor_on_the_drivers_own_node(session: Session, cluster: RayCluster) -> None:
    """It is looked at by a process of the client's own, which Ray cannot kill."""
    looked(session, lambda roster: "driver" in roles_on(roster, HEAD))
    raylet = str(cluster.scratch / HEAD)
    ours = cluster.pids(lambda command: command.startswith("ray::RankdbgNode"))
    assert [pid for pid in ours if raylet in environment_of(pid)] == []


def environment_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:  # it was killed
        return ""


def test_doctor_names_memory_monitor_and_environment(session: Session) -> None:
    """What the monitor has killed is no task of Slurm's; an environment that is never ready is a
    failure, with the error of who installs it, though the driver waits without a word."""

    def said() -> Any:
        source = job_logs(session, RULES.patterns())
        try:
            scans = source.scan()
        except RankdbgError:
            return None
        document = LogDiagnosis.of(scans, RULES, source.state).as_json()
        modes = {failure["mode"]: failure for failure in document["failures"]}
        found = "ray_runtime_env_failed" in modes and modes.keys() & MEMORY
        return modes if found else None

    modes = wait_for(said)
    assert "cgroup_oom_slurm" not in modes
    (line,) = modes["ray_runtime_env_failed"]["lines"]
    assert line.startswith(f"{HEAD}:/")
    assert "/runtime_env_setup-" in line
    assert line.endswith("ResolvePackageNotFound:")


MEMORY = {"ray_node_oom", "ray_actor_died_oom"}


def test_from_the_sessions_directories(session: Session, cluster: RayCluster) -> None:
    """The same from files alone, in which Ray's own core writes its kinds of errors."""
    places = [cluster.scratch / address / "session_latest" for address in (HEAD, OTHER)]

    def said() -> set[str]:
        document = json.loads(rankdbg("doctor", *places, "--json", timeout=PATIENCE).stdout)
        modes = {failure["mode"] for failure in document["failures"]}
        return modes if modes & MEMORY and "ray_runtime_env_failed" in modes else set()

    assert "cgroup_oom_slurm" not in wait_for(said)


def test_raylet_and_driver_end(session: Session, cluster: RayCluster) -> None:
    """A raylet that is killed takes rankdbg's driver with it, now or later. A session that stays
    shows the node of both nevertheless, and says of the other how to look there."""
    before = looked(session, lambda roster: "driver" in roles_on(roster, HEAD))
    raylet = cluster.pids(
        lambda command: "/raylet/raylet " in command and str(cluster.scratch / HEAD) in command
    )
    ours = cluster.pids(lambda command: "A Ray driver that carries the lines" in command)
    for pid in [*raylet, *ours]:
        os.kill(pid, signal.SIGKILL)
    assert raylet and ours
    for _ in range(3):  # before and while it looks for another way
        after = session.roster(where=False)
        assert after.silent_nodes.keys() == {OTHER}
        assert f"rankdbg ps -t ssh:{OTHER}" in after.silent_nodes[OTHER]
        assert drivers(after) == drivers(before) != set()


def drivers(roster: Roster) -> set[ProcessKey]:
    return {rank.process for rank in roster.processes if rank.role == "driver"}


def test_head_is_gone(cluster: RayCluster) -> None:
    """Without its GCS nothing of Ray's can be asked: how to look at nodes one by one is said."""
    for pid in cluster.pids(lambda command: "/gcs/gcs_server " in command):
        os.kill(pid, signal.SIGKILL)
    words = ("-t", cluster.target, "--python", cluster.python)
    wait_for(lambda: not cluster.pids(lambda command: "/gcs/gcs_server " in command))
    result = rankdbg("ps", *words, timeout=PATIENCE)
    assert result.returncode == 2
    first, why, hint = result.stderr.splitlines()
    assert first.startswith(f"error: cannot reach the Ray cluster {cluster.address}: ")
    assert (
        why
        == "  without its head node (GCS) Ray cannot reach any node, but jobs may still be running"
    )
    assert "rankdbg ps -t ssh:HOST,HOST" in hint and "rankdbg ps -t local" in hint
