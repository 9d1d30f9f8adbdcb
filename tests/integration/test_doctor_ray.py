"""A real Ray cluster of two nodes whose jobs fail in five ways, and one that is slow to start."""

from __future__ import annotations

import contextlib
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
from crashing_clusters import RAY_JOBS, run_on_ray
from jobs import PROGRAMS, Job, rankdbg
from rankdbg.errors import RankdbgError
from rankdbg.investigations.logs.log_diagnosis import LogDiagnosis
from rankdbg.investigations.logs.log_sources import job_logs
from rankdbg.session import Session
from rankdbg.verdicts.rules.log_rules import load_rules
from ray_cluster import HEAD, OTHER, RayCluster, wait_for
from waiting import PATIENCE

pytestmark = [
    pytest.mark.skipif(bool(ray_cluster.missing()), reason=ray_cluster.missing()),
]

PROGRAM = PROGRAMS / "ray_failures.py"
RULES = load_rules()


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with RayCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def session(cluster: RayCluster) -> Iterator[Session]:
    with cluster.session() as session:
        yield session


class Driver:
    """One job on the cluster, whose driver writes into a file."""

    def __init__(self, cluster: RayCluster, session: Session, how: str, folder: Path) -> None:
        self.cluster = cluster
        self._session = session
        self.job = ""
        self.log = folder / f"{how}.log"
        words = [*cluster.enter(), sys.executable, str(PROGRAM), cluster.address, how]
        with self.log.open("wb") as output:
            environment = {**os.environ, "RANKDBG": "0"}
            streams = {"stdout": output, "stderr": output}
            self._process = subprocess.Popen(words, env=environment, cwd=folder, **streams)

    def doctor(self, job: str | None = None) -> Any:
        """As `rankdbg doctor --json`, without a new way into the cluster each time."""
        source = job_logs(self._session, RULES.patterns(), job)
        return LogDiagnosis.of(source.scan(), RULES, source.state).as_json()

    def until(self, look: Callable[[Any], bool]) -> Any:
        """What doctor says of this job, as soon as it runs and that is as wanted."""

        def said() -> Any:
            try:
                document = self.doctor()
            except RankdbgError:  # its job has not begun, or the machine is busy
                return None
            self.job = document["cluster"]["job"]
            return document if document["cluster"]["running"] and look(document) else None

        return wait_for(said, lambda: self.log.read_text())

    def end(self) -> None:
        """The driver's own process: what entered the namespace is its parent."""
        for pid in self.cluster.pids(lambda command: PROGRAM.name in command):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        # Its workers go with it, and the next test wants the cluster for itself.
        wait_for(lambda: not self._is_there())

    def _is_there(self) -> bool:
        try:
            return bool(self._session.roster(where=False).jobs())
        except RankdbgError:
            return True


@pytest.fixture
def start(
    cluster: RayCluster, session: Session, tmp_path: Path
) -> Iterator[Callable[[str], Driver]]:
    drivers: list[Driver] = []

    def begin(how: str) -> Driver:
        drivers.append(Driver(cluster, session, how, tmp_path))
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.end()


def has_failed(said: Any) -> bool:
    return bool(said["failures"])


def all_answer(said: Any) -> bool:
    return (said["cluster"]["nodes"], said["cluster"]["no_response_nodes"]) == (2, {})


@pytest.mark.parametrize(
    ("how", "mode"),
    [
        ("raises", "python_error"),
        ("killed", "ray_actor_died_sigkill"),
        pytest.param("exits", "ray_actor_died_sigkill", marks=pytest.mark.extra),
        ("constructor", "ray_actor_init_failed"),
    ],
)
def test_an_actor_that_fails(start: Callable[[str], Driver], how: str, mode: str) -> None:
    """What failed first is named, with the class, the process and the node of the actor, though
    only the driver tells of it."""
    driver = start(how)

    def is_named(said: Any) -> bool:
        if not has_failed(said) or not all_answer(said):
            return False
        failure = said["failures"][0]
        place = failure["first"]["process"], failure["first"]["address"]
        # Of a constructor its own error, which is written behind the news of its death.
        own = all("no checkpoint /data/step-100" in line for line in failure["lines"])
        named = (failure["mode"], *place) == (mode, "Trainer", OTHER)
        return named and (own or how != "constructor")

    first = driver.until(is_named)["failures"][0]
    assert first["role"] == "root"
    pid = f"pid={first['first']['pid']}"
    wait_for(lambda: pid in driver.log.read_text().replace("pid: ", "pid="), pid)


@pytest.mark.extra
def test_on_the_command_line(cluster: RayCluster, start: Callable[[str], Driver]) -> None:
    """The same for a user, on 80 columns, with exit status 1; the session that the tests share is
    no job beside it."""
    start("raises").until(lambda said: "python_error" in modes_of(said) and all_answer(said))
    options = ("-t", cluster.target, "--python", cluster.python, "--timeout", 30)
    result = rankdbg("doctor", *options, timeout=PATIENCE)
    assert result.returncode == 1, result.stderr
    assert "2 of 2 nodes answer" in result.stdout
    assert "python_error" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_slow_to_start(start: Callable[[str], Driver]) -> None:
    """Engines that are silent for long are in a phase that may be; the files of workers on both
    nodes are read where they lie."""
    said = start("slow").until(
        # Before both are known as actors, the driver's copy of a line is one more process.
        lambda said: sorted(p["address"] for p in phases_of(said)) == [HEAD, OTHER]
    )
    assert [(p["stack"], p["stalled"]) for p in phases_of(said)] == [("sglang", False)] * 2
    assert said_nodes(said) == {HEAD, OTHER}
    assert not said["failures"], said["failures"]


def phases_of(said: Any) -> list[Any]:
    return [
        p for p in said["phases"] if p["process"] == "SglEngine" and p["phase"] == "cuda graphs"
    ]


def modes_of(said: Any) -> set[str]:
    return {failure["mode"] for failure in said["failures"]}


def said_nodes(said: Any) -> set[str]:
    return {file["path"].partition(":")[0] for file in said["files"]}


def test_beside_a_job_that_fails(cluster: RayCluster, start: Callable[[str], Driver]) -> None:
    """A raylet quotes what a constructor has raised, of whichever job: the one beside it is well."""
    slow = start("slow")
    job = slow.until(lambda said: len(phases_of(said)) == 2)["cluster"]["job"]
    raylet = cluster.scratch / OTHER / "session_latest" / "logs" / "raylet.out"
    quoted = "FileNotFoundError: no checkpoint /data/step-100"
    before = raylet.read_text().count(quoted)
    start("constructor")
    wait_for(lambda: raylet.read_text().count(quoted) > before)
    assert slow.doctor(job)["failures"] == []


def test_after_the_job_has_died(start: Callable[[str], Driver]) -> None:
    """The cluster still lives: what the workers have left is read; and so it is from the
    session's directory alone."""
    driver = start("constructor")
    driver.until(has_failed)
    driver.end()
    said = driver.doctor()
    assert (said["cluster"]["running"], said["cluster"]["job"]) == (False, driver.job)
    assert "ray_actor_init_failed" in modes_of(said), said["failures"]
    session = driver.cluster.scratch / OTHER / "session_latest"
    said = json.loads(rankdbg("doctor", session, "--json").stdout)
    assert "ray_actor_init_failed" in modes_of(said), said["failures"]


def test_resources_that_nobody_has(start: Callable[[str], Driver]) -> None:
    """A placement group that waits for ever is a failure, though nothing has ended."""
    said = start("unscheduled").until(has_failed)
    assert said["failures"][0]["mode"] == "ray_no_resources"


@pytest.mark.extra
@pytest.mark.slow
def test_files_of_a_job_that_crashed(cluster: RayCluster, tmp_path: Path) -> None:
    """From files alone: the actor that was killed, its rank and node, though the log of the head
    tells of the jobs before it, too."""
    run_on_ray(cluster, RAY_JOBS["ray_killed"], tmp_path)
    first = json.loads(rankdbg("doctor", tmp_path, "--json").stdout)["failures"][0]
    assert first["mode"] in RAY_JOBS["ray_killed"].modes
    assert (first["role"], first["ranks"], first["host"]) == ("root", "3", OTHER)


@pytest.mark.extra
def test_logs_of_workers(cluster: RayCluster, job: Job, tmp_path: Path) -> None:
    """Ranks that Ray's driver hides behind [repeated 3x across cluster] show again, each once."""
    driver = tmp_path / "driver.log"
    words = [*cluster.enter(), sys.executable, PROGRAMS / "ray_talks.py", cluster.address]
    with driver.open("wb") as out:
        environment = {"RAY_DEDUP_LOGS_AGG_WINDOW_S": "3", "PYTHONUNBUFFERED": "1"}
        job.start(*words, cwd=cluster.scratch, stdout=out, stderr=out, env=environment)
    # Fewer than 3 where some came later than the window that Ray waits.
    wait_for(lambda: "across cluster]" in driver.read_text(), driver.read_text)
    wait_for(lambda: lines_of_workers(cluster).count("ready") == 4, driver.read_text)
    reach = ("-t", cluster.target, "--python", cluster.python, "--timeout", 30)

    shown = job.cli("logs", *reach, "--json", timeout=PATIENCE)
    lines = json.loads(shown.stdout)["lines"]
    said = [line["ranks"] for line in lines if line["text"] == "loading the model"]
    assert said == ["Talker 0-3"], shown.stdout + shown.stderr

    differs = job.cli("logs", "role=Talker", *reach, "--diff", "--json", timeout=PATIENCE)
    kinds = json.loads(differs.stdout)["only_group"]
    assert [(kind["text"], kind["count"]) for kind in kinds] == [
        ("loading the model", 4),
        ("ready", 4),
    ], differs.stdout + differs.stderr


def lines_of_workers(cluster: RayCluster) -> list[str]:
    files = cluster.scratch.glob("*/session_latest/logs/worker-*.out")
    return [line for file in files for line in file.read_text().splitlines()]
