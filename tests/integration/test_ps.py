"""rankdbg ps: every rank, its state and where it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job, rankdbg
from rankdbg.node.machine.processes import read_stat
from waiting import wait_for


def listed(
    job: Job, wanted: Callable[[str], bool], *words: object
) -> subprocess.CompletedProcess[str]:
    """`rankdbg ps`, as soon as it says what is wanted: an agent that gets no processor is late."""
    said: list[subprocess.CompletedProcess[str]] = []

    def as_wanted() -> bool:
        said[:] = [job.cli("ps", "--timeout", 30, *words)]
        return said[0].returncode == 0 and wanted(said[0].stdout)

    wait_for(as_wanted, lambda: said)
    return said[0]


def rows_of(text: str) -> dict[int, Any]:
    return {row["rank"]: row for row in json.loads(text)["ranks"]}


def test_equal_rows_are_folded(job: Job) -> None:
    """Seven ranks at one place are one row, the eighth is marked."""
    job.start_ranks("waits", "waits", "waits", "waits_elsewhere", options=("--mesh", "dp=2,tp=2"))
    job.wait_at("waits", "waits", "waits", "waits_elsewhere")
    rows = [["0-2", "running", "waits"], ["3", "running", "waits_elsewhere"]]
    result = listed(job, lambda text: [r.split()[:3] for r in text.splitlines()[2:]] == rows)
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"job {job.name}   4 ranks on 1 node   dp=2 tp=2   for ")
    assert lines[2].split()[3].startswith("behave.py:")
    assert lines[3].endswith("<- alone here")
    assert result.stderr == ""


def test_json_has_every_label(job: Job) -> None:
    """A row of --json names rank, coordinates, role, host, pid, state and place."""
    job.start_ranks("waits", "waits", options=("--mesh", "tp=2", "--role", "trainer"))
    ranks = job.wait_at("waits", "waits")

    def runs(text: str) -> bool:
        row = rows_of(text)[1]
        return (row["state"], row["where"] and row["where"]["function"]) == ("running", "waits")

    document = json.loads(listed(job, runs, "--json", "ranks(1)").stdout)
    assert document["schema"] == "rankdbg.ps/1"
    (row,) = document["ranks"]
    assert row["rank"] == 1
    assert row["coordinates"] == {"tp": 1}
    assert row["role"] == "trainer"
    assert row["host"] == os.uname().nodename
    assert row["pid"] == ranks[1].pid
    assert row["where"]["file"].endswith("/tests/programs/behave.py")


def test_states(job: Job, tmp_path) -> None:
    """SIGSTOP, state D, a held GIL and a killed rank each have their state and reason."""
    job.start_ranks(
        "waits", "in_state_d", "holds_gil", "waits", "waits", env={"BEHAVE_SCRATCH": str(tmp_path)}
    )
    ranks = job.wait_at("waits", "in_state_d", "holds_gil", "waits", "waits")
    # So it is for a moment when it starts the compiler, too.
    wait_for((tmp_path / "1.so").exists, "what it compiles")
    wait_for(lambda: (stat := read_stat(ranks[1].pid)) and stat.state == "D", "state D")
    os.kill(ranks[3].pid, signal.SIGSTOP)
    os.kill(ranks[4].pid, signal.SIGKILL)
    states = {0: "running", 1: "blocked", 2: "blocked", 3: "stopped", 4: "zombie"}

    def have_states(text: str) -> bool:
        return {number: row["state"] for number, row in rows_of(text).items()} == states

    rows = rows_of(listed(job, have_states, "--json").stdout)
    assert "state D" in rows[1]["detail"]
    assert "GIL" in rows[2]["detail"]
    assert f"kill -CONT {ranks[3].pid}" in rows[3]["detail"]
    assert rows[3]["where"]["function"] == "waits"


def test_a_launcher_keeps_its_agent_while_its_ranks_are_not_there_yet(job: Job, tmp_path) -> None:
    """Listing a job that is about to start removes nothing of it."""
    launcher = tmp_path / "torchrun"
    launcher.write_text("import threading\nprint('up', flush=True)\nthreading.Event().wait()\n")
    process = job.start(sys.executable, launcher)
    assert process.stdout.readline() == "up\n"
    before = sorted(job.directory.iterdir())
    assert len(before) == 2
    assert job.ranks() == []
    (seen,) = job.ranks(everything=True)
    assert (seen.kind, seen.agent) == ("launcher", True)
    assert sorted(job.directory.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "questions"),
    [
        (("ps", "--job", "{job}"), []),
        (("stacks", "--job", "{job}", "ranks(0)"), []),
        (("ask", "--all", "--job", "{job}", "all", "1"), []),
        (("logs", "--job", "{job}"), []),
        (("why", "--job", "{job}"), []),
        (("pause", "--job", "{job}", "all"), []),
        (("ps",), ["card"]),
        (("ps", "--job", "nobody"), ["card"]),
    ],
)
def test_ranks_of_other_jobs_are_not_asked(
    job: Job,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    questions: list[str],
) -> None:
    """With --job the agents of other jobs are not asked, on the way to any verb; without it, and
    where no such job is found, they are."""
    monkeypatch.setenv("RANKDBG_TESTS_COLD", "1")  # who asks is known by its environment
    job.start_ranks("waits", stdout=(tmp_path / "log").open("w"))
    job.wait_at("waits")
    heard = tmp_path / "heard"
    stranger = subprocess.Popen(
        [sys.executable, PROGRAMS / "fake_agent.py", "hears its directory"],
        env={**job.environment, "RANKDBG_JOB": f"{job.name}-other", "RANK": "0", "RANKDBG": "0"},
        stdout=heard.open("w"),
        start_new_session=True,
    )
    try:
        wait_for(lambda: heard.read_text() == "ready\n", heard.read_text)
        rankdbg(*(word.format(job=job.name) for word in words), env=job.environment)
        asked = heard.read_text().split()[1:]
        assert sorted(set(asked)) == questions
    finally:
        os.killpg(stranger.pid, signal.SIGKILL)
        stranger.wait()


def test_a_rank_that_exits(job: Job) -> None:
    """Its program has ended and its process has not: ps says so, and why that the job ends."""
    job.start_ranks("exits_slowly", "exits_slowly")
    exiting = {0: "exiting", 1: "exiting"}
    result = listed(
        job,
        lambda text: {n: row["state"] for n, row in rows_of(text).items()} == exiting,
        "--json",
    )
    details = {row["detail"] for row in rows_of(result.stdout).values()}
    assert details == {"its program has ended, and the process is exiting"}
    assert job.json("why")["state"] == "ending"


def test_rank_that_exits_in_a_shared_directory(job: Job) -> None:
    """The files of its agent have another name, because a container's rank has the same pid."""
    card = json.dumps({"pid_namespace": "pid:[1]"})
    program = f"{sys.executable} {PROGRAMS / 'behave.py'} exits_slowly"
    job.directory.mkdir(mode=0o700, parents=True)
    other = f"echo '{card}' > $RANKDBG_DIR/$$.json"
    job.start("sh", "-c", f"{other}; exec {program}", env={"RANK": "0", "WORLD_SIZE": "1"})
    result = listed(
        job,
        lambda text: {n: row["state"] for n, row in rows_of(text).items()} == {0: "exiting"},
        "--json",
    )
    assert (
        rows_of(result.stdout)[0]["detail"] == "its program has ended, and the process is exiting"
    )


def test_a_long_reason_is_cut(job: Job) -> None:
    """ps and stacks have the beginning of a post-mortem's reason, list has all of it."""
    code = "raise RuntimeError('word ' * 500)"
    job.start(sys.executable, "-c", code, options=("--break-on-error",), env={"RANK": "0"})
    job.wait_for(lambda ranks: [rank.state for rank in ranks] == ["stopped"])
    for verb in ("ps", "stacks"):
        shown = job.cli(verb).stdout
        assert "post-mortem: RuntimeError: word" in shown
        assert len(shown) < 1000
    (stop,) = job.json("list")["stops"]
    assert len(stop["why"]) > 1000


def test_hosts_with_different_numbers_of_ranks(job: Job) -> None:
    """As Slurm and Kubernetes may place them: the title tells how many, from and to."""
    for rank, (host, place) in enumerate([(0, 0), (0, 1), (1, 0)]):
        names = {"RANK": rank, "WORLD_SIZE": 3, "LOCAL_RANK": place, "GROUP_RANK": host}
        environment = {name: str(value) for name, value in names.items()}
        code = "print('ready', flush=True); input()"
        process = job.start(sys.executable, "-c", code, env=environment, stdin=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"
    listed(job, lambda said: "hosts=2 gpus=1-2" in said)
