"""How a node does: real control groups, disks and processes, and what the kernel says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import Job
from rankdbg.node.machine import kernel_log, node_figures
from rankdbg.node.machine.processes import read_stat
from rankdbg.node.roster.found_processes import Process
from rankdbg.verdicts.node_health import complaints
from rankdbg.verdicts.rules.log_rules import load_rules
from rankdbg.wire.decoding import decode
from rankdbg.wire.node_answers import NodeFigures
from waiting import PATIENCE, wait_for

LIMIT = 64 << 20
NOTHING = {"disks": [], "memory": {"size": 0, "available": 0, "groups": []}, "processes": []}


def figures(**known: Any) -> NodeFigures:
    return decode(NodeFigures, {**NOTHING, **known})


# The kernel's log has pids as the machine counts them.
of_the_machine = pytest.mark.machine


@pytest.fixture
def limited() -> Iterator[Path]:
    """A control group of 64 MiB."""
    old = Path("/sys/fs/cgroup/memory")
    root = old if old.exists() else Path("/sys/fs/cgroup")
    # A name of its own: the kernel's messages about a group stay when the group has gone.
    group = root / f"rankdbg-test-{os.urandom(4).hex()}"
    try:
        group.mkdir()
        limit = "memory.limit_in_bytes" if old.exists() else "memory.max"
        (group / limit).write_text(str(LIMIT))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield group
    wait_for(lambda: not (group / "cgroup.procs").read_text(), "an empty control group")
    group.rmdir()


@of_the_machine
def test_a_process_that_was_killed_for_its_memory(limited: Path) -> None:
    """The kernel's message is found, and its group's count says so where nobody may read that."""
    begun = time.time()
    lives = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        (limited / "cgroup.procs").write_text(str(lives.pid))
        eats = f"open('{limited}/cgroup.procs', 'w').write('0'); bytearray(1 << 28)"
        eater = subprocess.Popen([sys.executable, "-S", "-c", eats])
        assert eater.wait(PATIENCE) == -signal.SIGKILL
        rank = Process(lives.pid, 1, 0, True, {}, [])
        told = node_figures.look([rank], [])
    finally:
        lives.kill()
        lives.wait()
    (group,) = [g for g in told["memory"]["groups"] if g["group"] == f"/{limited.name}"]
    assert (group["limit"], group["kills"]) == (LIMIT, 1)
    said = [c.text for c in complaints(figures(memory=told["memory"]), [])]
    assert f"the kernel has killed once in control group /{limited.name}" in " ".join(said)

    hits = kernel_log.find(load_rules().patterns(), begun - 1)
    assert any(f"Killed process {eater.pid} " in hit.text for hit in hits), hits
    assert all(hit.stamp[:4] == time.strftime("%Y") for hit in hits)


@of_the_machine
@pytest.mark.parametrize("output", ["log", "/dev/null"])
def test_a_rank_that_was_killed_for_its_memory(
    job: Job, limited: Path, tmp_path: Path, output: str
) -> None:
    """doctor names it, though its own log says nothing, or there is none."""
    eats = f"open('{limited}/cgroup.procs', 'w').write('0'); bytearray(1 << 28)"
    program = (
        "import os, sys, time\n"
        "print(os.environ['RANK'], flush=True)\n"
        "sys.stdin.readline()\n"
        f"if os.environ['RANK'] == '1': {eats}\n"
        "time.sleep(600)\n"
    )
    (tmp_path / "train.py").write_text(program)
    with (tmp_path / output).open("w") as log:
        ranks = [
            job.start(
                *(sys.executable, tmp_path / "train.py"),
                env={"RANK": str(number), "WORLD_SIZE": "2"},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
            for number in range(2)
        ]
    job.wait_for(lambda found: len(found) == 2)
    for rank in ranks:
        assert rank.stdin is not None
        rank.stdin.write("\n")
        rank.stdin.flush()
    ranks[1].wait(PATIENCE)
    result = job.cli("doctor", "--job", job.name, "--json")
    assert result.returncode == 1, result.stdout + result.stderr
    report = json.loads(result.stdout)
    first = report["failures"][0]
    # In a container of Kubernetes the process has a score by which that can be told.
    assert first["mode"] in ("host_oom_kernel", "k8s_oomkilled")
    assert first["ranks"] == "1", result.stdout
    assert len(report["failures"]) == 1
    assert "Killed process" in first["lines"][0]


def eat_in(group: Path) -> int:
    """Have the kernel kill a process there, and return its pid."""
    eats = f"open('{group}/cgroup.procs', 'w').write('0'); bytearray(1 << 28)"
    eater = subprocess.Popen([sys.executable, "-S", "-c", eats])
    assert eater.wait(PATIENCE) == -signal.SIGKILL
    return eater.pid


@of_the_machine
@pytest.mark.parametrize("inside", [False, True])
def test_a_kill_beside_a_job(job: Job, limited: Path, tmp_path: Path, inside: bool) -> None:
    """Is a failure of the job where it was in the control group of its ranks: that of another
    container is not mentioned."""
    with (tmp_path / "log").open("w") as log:
        job.start_ranks("waits", stdout=log, stderr=log)
    (rank,) = job.wait_at("waits")
    if inside:
        (limited / "cgroup.procs").write_text(str(rank.pid))
    killed = eat_in(limited)
    result = job.cli("doctor", "--json", tmp_path / "log", "-t", "local")
    job.end()
    report = json.loads(result.stdout)
    named = [f for f in report["failures"] if f"process {killed} " in " ".join(f["lines"])]
    assert bool(named) is inside, result.stdout
    assert inside or str(killed) not in result.stdout


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """Is said with what is free, each file system once."""
    if os.geteuid():
        pytest.skip("only root may mount")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], check=True)
    try:
        (place / "full").write_bytes(bytes((1 << 20) - 4096))
        told = node_figures.look([], [str(place), str(place / ".")])
    finally:
        subprocess.run(["umount", place], check=True)
    ours = [disk for disk in told["disks"] if disk["place"] == str(place)]
    assert len(ours) == 1
    said = [c.text for c in complaints(figures(disks=ours), [])]
    assert said == [f"{place} is full: 4 KiB of 1 MiB are free"]


def rank(pid: int) -> Process:
    return Process(pid, 0, os.getpid(), True, {}, [])


def test_children_that_nobody_collects() -> None:
    """Are named with the parent who should; its own ordinary children are not, and neither are
    those of processes that have nothing to do with the ranks of the job."""
    program = "import os; print(os.fork() or os._exit(0), flush=True); input()"
    parent = subprocess.Popen(
        [sys.executable, "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    other = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_for(lambda: read_stat(child) is not None and read_stat(child).state == "Z", "ended")
        held = [p for p in node_figures.look([], [])["processes"] if p["parent"] == parent.pid]
        of_rank = {p["pid"] for p in node_figures.look([rank(parent.pid)], [])["processes"]}
        of_others = {p["pid"] for p in node_figures.look([rank(other.pid)], [])["processes"]}
    finally:
        other.kill()
        other.wait()
        parent.kill()
        parent.wait()
    assert [(p["state"], p["pid"]) for p in held] == [("Z", child)]
    assert child in of_rank and child not in of_others
    (complaint,) = complaints(figures(processes=held), [])
    assert f"process {parent.pid} has not collected" in complaint.text


def test_children_of_another_job(job: Job) -> None:
    """One job's child that was not collected is not told of another job on the same node."""
    name = job.name
    program = "import os; os.fork() or os._exit(0); print('ready', flush=True); input()"
    for number, code in enumerate((program, "print('ready', flush=True); input()")):
        job.name = f"{name}-{number}"
        words = (sys.executable, "-c", code)
        process = job.start(*words, env={"RANK": "0", "WORLD_SIZE": "1"}, stdin=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    with job.session() as session:
        jobs = session.roster().jobs(True)
        parents = []
        for number in range(2):
            ranks = jobs[f"{name}-{number}"]
            (told,) = session.health([], 1.0, ranks=ranks).values()
            pids = {rank.pid for rank in ranks}
            parents.append([held.parent in pids for held in told.processes if held.state == "Z"])
    assert parents == [[True], []]
