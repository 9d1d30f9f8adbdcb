"""The logs of jobs elsewhere: Slurm's output files, what pods have written, files on ssh hosts."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from crashing_clusters import SLURM_JOBS, run_on_slurm
from jobs import PROGRAMS, rankdbg
from kubernetes_cluster import Kubernetes
from slurm_cluster import SlurmCluster, running_cluster
from ssh_hosts import Hosts
from waiting import PATIENCE, wait_for

PROGRAM = PROGRAMS / "logs_job.py"
MESH = "[titan] - root - INFO - Building 1-D device mesh with ['dp'], [2]"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def tell(talk: Path, rank: int, line: str) -> None:
    with (talk / f"{rank}.txt").open("a") as file:
        file.write(f"{line}\n")


def until(
    look: Callable[[Any], bool], target: str, environment: dict[str, str], *words: object
) -> Any:
    """What doctor says as soon as it is as wanted; without what the kernel tells of others."""

    def said() -> Any:
        result = rankdbg("doctor", "-t", target, "--json", "--timeout", 20, *words, env=environment)
        if result.returncode not in (0, 1):
            return None
        document = json.loads(result.stdout)
        own = [f for f in document["failures"] if "kernel log" not in f["first"]["file"]]
        document["failures"] = own
        return document if look(document) else None

    return wait_for(
        said, lambda: rankdbg("doctor", "-t", target, *words, env=environment), seconds=PATIENCE
    )


def why(target: str, environment: dict[str, str]) -> Any:
    """The failures by which `rankdbg why` judges a job that has ended."""
    result = rankdbg("why", "-t", target, "--json", "--timeout", 20, env=environment)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["state"] == "ended" and not document["stuck"]
    assert document["says"].startswith(f"The job has ended: {document['failures'][0]['mode']}")
    return document["failures"]


def logged(target: str, environment: dict[str, str]) -> dict[str, list[str]]:
    """What `rankdbg logs` shows, by who has written it."""
    result = rankdbg("logs", "-t", target, "--json", "--timeout", 20, env=environment)
    assert result.returncode == 0, result.stderr
    lines: dict[str, list[str]] = {}
    for line in json.loads(result.stdout)["lines"]:
        lines.setdefault(line["ranks"] or line["others"][0], []).append(line["text"])
    return lines


def paths(said: Any) -> list[str]:
    return [Path(file["path"]).name for file in said["files"] if "kernel" not in file["path"]]


# --- Slurm ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.mark.extra
@pytest.mark.slow
def test_slurm(slurm: SlurmCluster, tmp_path: Path) -> None:
    """The batch script's output by scontrol, the tasks' by what srun was told, each once though
    all nodes see it; and what they have left when the job is over."""
    talk = tmp_path / "talk"
    talk.mkdir()
    script = tmp_path / "job.sh"
    rank = f"RANK=$SLURM_PROCID exec {sys.executable} {PROGRAM} {talk}"
    script.write_text(f"#!/bin/sh\necho begins\nsrun -o step-%j-%t.out sh -c '{rank}'\n")
    options = ("-N2", "--ntasks-per-node=1", "-o", "out-%x-%j.log", "-J", "tr")
    words = ("sbatch", "--parsable", *options, f"--chdir={tmp_path}", script)
    job = slurm.call(*words).strip()
    environment, target = slurm.environment, f"slurm:{job}"
    said = until(lambda s: {p["rank"] for p in s["phases"]} == {0, 1}, target, environment)
    assert sorted(paths(said)) == [f"out-tr-{job}.log", f"step-{job}-0.out", f"step-{job}-1.out"]
    assert {file["kind"] for file in said["files"]} == {"slurm"}
    tell(talk, 1, OOM)
    said = until(lambda s: bool(s["failures"]), target, environment)
    first = said["failures"][0]
    assert (first["mode"], first["ranks"], first["first"]["address"]) == ("cuda_oom", "1", "node-1")
    lines = logged(target, environment)
    assert (lines["0-1"], lines["1"]) == ([MESH], [OOM])
    tell(talk, 1, "!raise")
    told = tmp_path / f"out-tr-{job}.log"  # by srun, that a task has failed
    wait_for(lambda: "srun: error" in told.read_text(), lambda: told.read_text())
    slurm.cancel(job)
    wait_for(lambda: slurm.state(job) not in ("RUNNING", "COMPLETING"), "the job is over")
    result = rankdbg("doctor", "-t", target, "--json", env=environment)
    assert "reading the logs that it left" in result.stderr
    modes = [failure["mode"] for failure in json.loads(result.stdout)["failures"]]
    assert "slurm_task_exited" in modes
    assert [each["mode"] for each in why(target, environment)] == modes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slurm_killed", "slurm_cancelled"])
def test_slurm_job_that_crashes(slurm: SlurmCluster, tmp_path: Path, name: str) -> None:
    """A task that is killed is the cause, with its rank and node; in a cancelled job none is."""
    tmp_path.chmod(0o755)
    run_on_slurm(slurm, SLURM_JOBS[name], tmp_path)
    first = json.loads(rankdbg("doctor", tmp_path, "--json").stdout)["failures"][0]
    job = SLURM_JOBS[name]
    assert (first["role"], first["mode"]) == ("root", job.modes[0])
    if job.rank is not None:
        assert (first["ranks"], first["host"]) == (str(job.rank), job.host)


# --- pods -----------------------------------------------------------------------------------


def test_pods(tmp_path: Path) -> None:
    """What a container has written, also before it was restarted, and after it has ended."""
    pods = Kubernetes(tmp_path / "kubernetes")
    # It writes into a pipe, as in a real pod.
    rank = f"RANK=0 WORLD_SIZE=1 {sys.executable} {PROGRAM} . 2>&1 | cat; sleep 1000"
    command = ["/bin/sh", "-c", f"echo 'RuntimeError: {OOM}'; {rank}"]
    try:
        pods.start("worker-0", {"main": {"command": command, "environment": {}}}, {"app": "x"})
        target, environment = "k8s:train/app=x", pods.environment()
        said = until(lambda s: bool(s["phases"]), target, environment)
        assert said["failures"][0]["first"]["address"] == "worker-0"
        assert any(file["kind"] == "pod" for file in said["files"])
        assert logged(target, environment)["0"] == [f"RuntimeError: {OOM}", MESH]
        pods.restart("worker-0", "main")
        said = until(lambda s: len(s["files"]) > 1, target, environment)
        assert any("--previous" in file["path"] for file in said["files"])

        def end(document: dict[str, Any]) -> None:
            document["status"]["phase"] = "Failed"
            (status,) = document["status"]["containerStatuses"]
            ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-02T03:04:05Z"}
            status["state"] = {"terminated": ended}

        pods.change("worker-0", end)
        said = until(lambda s: not s["cluster"]["running"], target, environment)
        assert "OOMKilled" in said["cluster"]["no_response_nodes"]["worker-0"]
        # What a container has written came before its end.
        assert [each["mode"] for each in said["failures"]] == ["cuda_oom", "k8s_oomkilled"]
        assert MESH in itertools.chain(*logged(target, environment).values())
        assert [each["mode"] for each in why(target, environment)] == ["cuda_oom", "k8s_oomkilled"]
    finally:
        pods.end()


# --- ssh ------------------------------------------------------------------------------------


def start_on(hosts: Hosts, rank: int, talk: Path) -> None:
    """A rank of two, on the host of its number; its log lies beside `talk`."""
    name = hosts.names[rank]
    script = talk.with_name(f"{name}.sh")
    shell = f"exec {sys.executable} {PROGRAM} {talk} >> {talk.with_name(name)}.train.log 2>&1"
    script.write_text(f"RANK={rank} WORLD_SIZE=2 RANKDBG_JOB=pair {shell}\n")
    hosts.run(name, f"sh {script} </dev/null >/dev/null 2>&1 &")


@pytest.mark.extra
@pytest.mark.slow
def test_ssh(tmp_path: Path) -> None:
    """Each host's files are read there; given paths too, with -t. A host that is gone is named."""
    talk = tmp_path / "talk"
    talk.mkdir()
    with Hosts(tmp_path, "host-1", "host-2") as hosts:
        for rank in range(2):
            start_on(hosts, rank, talk)
        environment = hosts.environment()
        target = hosts.target
        said = until(lambda s: {p["rank"] for p in s["phases"]} == {0, 1}, target, environment)
        assert sorted(paths(said)) == ["host-1.train.log", "host-2.train.log"]
        tell(talk, 1, OOM)
        said = until(lambda s: bool(s["failures"]), target, environment)
        first = said["failures"][0]
        assert (first["ranks"], first["first"]["address"]) == ("1", "host-2")
        given = until(
            lambda s: bool(s["failures"]), target, environment, tmp_path / "host-2.train.log"
        )
        assert [failure["mode"] for failure in given["failures"]] == ["cuda_oom"]
        hosts.stop("host-2")
        said = until(lambda s: bool(s["cluster"]["no_response_nodes"]), target, environment)
        assert list(said["cluster"]["no_response_nodes"]) == ["host-2"]


@pytest.mark.extra
@pytest.mark.slow
def test_follow_a_host_that_comes_back(tmp_path: Path) -> None:
    """Who follows is told that a host is lost and that it is back, and what is said there then."""
    talk = tmp_path / "talk"
    talk.mkdir()
    told = {verb: tmp_path / f"{verb}.told" for verb in ("doctor", "logs")}
    following: list[subprocess.Popen[bytes]] = []

    def has_told(verb: str, *words: str) -> None:
        wait_for(
            lambda: all(word in told[verb].read_text() for word in words),
            lambda: told[verb].read_text(),
        )

    with Hosts(tmp_path, "host-1", "host-2") as hosts, ExitStack() as undo:
        start_on(hosts, 0, talk)
        start_on(hosts, 1, talk)
        wait_for(
            lambda: len([log for log in tmp_path.glob("host-*.train.log") if log.read_text()]) == 2,
            "both ranks to say something",
        )
        for verb, output in told.items():
            words = [sys.executable, "-m", "rankdbg", verb, "--follow", "--timeout", "20"]
            words += ["-t", hosts.target]
            with output.open("wb") as file:
                streams = {"stdout": file, "stderr": file}
                process = subprocess.Popen(words, env=hosts.environment(), **streams)
            following.append(process)
            undo.callback(process.wait)
            undo.callback(process.kill)
        for verb in told:
            has_told(verb, "mesh")
        hosts.stop("host-2")
        has_told("doctor", "host-2 does not respond")
        has_told("logs", "host-2: ")
        hosts.start("host-2")
        start_on(hosts, 1, talk)
        tell(talk, 1, OOM)
        has_told("doctor", "host-2 responds again", "cuda_oom on rank 1")
        has_told("logs", "host-2 can be read again", OOM)
        assert [process.poll() for process in following] == [None, None]  # they follow still
