"""What one user is told of another: nothing, unless it is asked for; but all of their own trouble."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rankdbg
from jobs import Job
from rankdbg.node.machine import processes
from rankdbg.types import Rank
from strangers import STRANGER, as_stranger, needs_root, public_place
from waiting import PATIENCE, wait_for

pytestmark = [needs_root]

SOURCE = Path(rankdbg.__file__).parents[1]
PYTHON = next((p for p in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(p).exists()), "")
VERBS = ("ps", "why", "check", "stacks")
WAITS = """
    import sys
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of another user's."""
    with public_place() as directory:
        own = directory / "theirs"
        own.mkdir(mode=0o700)
        os.chown(own, STRANGER, STRANGER)
        yield own


def said_by(verb: str, directory: Path, user: int = 0, job: str = "") -> str:
    """All that a user is told, with their agents in this directory."""
    words = ["--job", job] if job and verb != "check" else []
    python, paths = (PYTHON, str(SOURCE)) if user else (sys.executable, "")
    result = subprocess.run(
        [python, "-m", "rankdbg", verb, *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": paths, "RANKDBG_DIR": str(directory)},
        cwd="/",
        user=user,
        group=user,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "Traceback" not in result.stderr
    return result.stdout + result.stderr


def test_root_is_told_nothing_of_others_directories(job: Job, place: Path) -> None:
    """A rank of another user's, whose agents have a directory of their own, is no trouble."""
    environment = {"RANKDBG": "1", "RANKDBG_DIR": str(place), "RANK": "0", "WORLD_SIZE": "1"}
    stranger = as_stranger(WAITS, env=environment)
    try:
        assert stranger.stdout is not None and stranger.stdout.readline() == "ready\n"
        job.start_ranks("waits")
        job.wait_at("waits")
        for verb in VERBS:
            said = said_by(verb, job.directory, job=job.name)
            assert str(place) not in said, said
            assert str(stranger.pid) not in said, said
            assert "agents cannot be found" not in said, said
        assert str(place) not in said_by("ps", job.directory)
    finally:
        stranger.communicate("")


def test_another_user_does_not_join_the_job_of_root(job: Job, place: Path) -> None:
    """By its name in RANKDBG_JOB: the job has its own ranks alone, is asked alone, and the other user's
    is a job of its own."""
    environment = {"RANKDBG": "1", "RANKDBG_DIR": str(place), "RANKDBG_JOB": job.name}
    stranger = as_stranger(WAITS, env={**environment, "RANK": "1", "WORLD_SIZE": "2"})
    try:
        assert stranger.stdout is not None and stranger.stdout.readline() == "ready\n"
        job.start_ranks("waits")
        job.wait_at("waits")
        assert [answer["rank"] for answer in job.json("ps")["ranks"]] == [0]
        assert str(stranger.pid) not in job.cli("ask", "all", "1 + 1").stderr
        with job.session() as session:
            theirs = [p for p in session.roster().processes if p.pid == stranger.pid]
        assert [(p.job, p.kind) for p in theirs] == [(f"{job.name}-uid{STRANGER}", "rank")]
    finally:
        stranger.communicate("")


def test_what_a_job_starts_as_another_user_is_part_of_it(job: Job) -> None:
    """A launcher of root's that becomes that user for one of its ranks."""
    launcher = (
        "import os, subprocess, sys\n"
        f"user = dict(user={STRANGER}, group={STRANGER}, extra_groups=[])\n"
        "words = [sys.argv[1], '-c', 'import time; time.sleep(600)']\n"
        "ranks = [dict(os.environ, RANK=str(rank), WORLD_SIZE='2') for rank in range(2)]\n"
        "subprocess.Popen(words, env=ranks[0])\n"
        "subprocess.call(words, env=ranks[1], **user)\n"
    )
    job.start(sys.executable, "-c", launcher, PYTHON, agent=False)

    def are_of_both(ranks: list[Rank]) -> bool:
        return {r.number: processes.owner(r.pid) for r in ranks} == {0: 0, 1: STRANGER}

    job.wait_for(are_of_both)


def test_a_user_is_told_nothing_of_roots_jobs(job: Job, place: Path) -> None:
    """The user has a job, and so has root: each verb is about the user's own."""
    if as_stranger("import rankdbg", env={"PYTHONPATH": str(SOURCE)}).wait(PATIENCE):
        pytest.skip("the checkout cannot be read by others")
    job.start_ranks("waits")
    (of_root,) = job.wait_at("waits")
    own = {"PYTHONPATH": str(SOURCE), "RANKDBG_DIR": str(place), "RANK": "0", "WORLD_SIZE": "1"}
    code = f"import rankdbg; rankdbg.init()\n{WAITS.replace('    ', '')}"
    stranger = as_stranger(code, env={**own, "RANKDBG_JOB": "theirs"})
    try:
        assert stranger.stdout is not None and stranger.stdout.readline() == "ready\n"
        wait_for(lambda: "theirs" in said_by("ps", place, STRANGER), "the user's own job")
        for verb in VERBS:
            said = said_by(verb, place, STRANGER, job="theirs")
            assert str(job.directory) not in said, said
            assert job.name not in said, said
            assert str(of_root.pid) not in said.split(), said
            assert "agents cannot be found" not in said, said
    finally:
        stranger.communicate("")


def test_trouble_with_ones_own_directory_is_said(job: Job) -> None:
    """Others can write into it: agents are not looked for there, and ps says what to do."""
    job.start_ranks("waits")
    job.wait_at("waits")
    job.directory.chmod(0o777)
    assert (
        f"other users can write to {job.directory}; fix it with: chmod 700 {job.directory}"
        in " ".join(said_by("ps", job.directory).split())
    )
