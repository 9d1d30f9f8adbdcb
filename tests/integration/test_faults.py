"""What can go wrong around ranks: it is named, and nobody else is held up."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobs import PROGRAMS, Job, rankdbg
from waiting import PATIENCE, wait_for


def as_root() -> None:
    if os.geteuid():
        pytest.skip("only root can do this")


def alone(*words: object, env: dict[str, str] | None = None, prefix: str = "") -> list[str]:
    """The command in a PID namespace of its own: nobody else's jobs are there."""
    command = " ".join([prefix, sys.executable, "-m", "rankdbg", *map(str, words)])
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", command]


def run(words: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("verb", ["ps", "stacks", "ask all x", "save {scratch}/s", "select all"])
def test_no_job(tmp_path: Path, verb: str) -> None:
    """Every verb says so in one sentence, with what to do; exit status 2."""
    as_root()
    words = verb.format(scratch=tmp_path).split()
    result = run(alone(*words), RANKDBG_DIR=str(tmp_path / "none"))
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: no job is running here\n")
    assert "hint: start one: rankdbg run" in result.stderr


def test_a_job_of_another_user(tmp_path: Path) -> None:
    """One user does not see the ranks of another, is told whose they are, and how to look."""
    as_root()
    place = Path("/tmp/rankdbg-65534")
    place.mkdir(mode=0o700, exist_ok=True)
    os.chown(place, 65534, 65534)
    program = f"{sys.executable} -c 'import time; time.sleep(60)'"
    prefix = f"setpriv --reuid=65534 --regid=65534 --clear-groups {program} & "
    prefix += 'until [ "$(stat -c %u /proc/$!)" = 65534 ]; do sleep 0.01; done; '
    try:
        result = run(alone("ps", prefix=prefix), RANKDBG_DIR=str(tmp_path / "none"))
    finally:
        shutil.rmtree(place)
    assert result.returncode == 2
    assert "nobody has jobs here, which you may not inspect" in result.stderr
    assert "hint: run rankdbg as that user: sudo -u nobody rankdbg ps" in result.stderr


def test_a_directory_full_of_garbage(job: Job) -> None:
    """Files that are no cards, links, pipes and folders are passed over and counted."""
    job.start_ranks("waits", "waits")
    job.wait_at("waits", "waits")
    here = job.directory
    (here / "empty.json").write_text("")
    (here / "binary.json").write_bytes(os.urandom(5000))
    (here / "list.json").write_text("[1, 2]")
    (here / "other.json").write_text('{"pid": "x", "start": null}')
    (here / "deep.json").write_text("[" * 100_000)
    (here / "large.json").write_bytes(b" " * (8 << 20))
    (here / "folder.json").mkdir()
    (here / "nobody.sock").write_text("not a socket")
    (here / "link.json").symlink_to("/etc/passwd")
    os.mkfifo(here / "pipe.json")
    document = job.json("ps")
    assert [row["rank"] for row in document["ranks"]] == [0, 1]
    notes = [note for note in document["notes"] if str(here) in note]
    assert notes == [f"9 files in {here} are not valid agent cards"]
    assert (here / "other.json").exists()


HALF = pytest.param("half", marks=pytest.mark.slow)


@pytest.mark.parametrize("mode", ["rubbish", HALF, "endless", "newer", "wrong", "hangs up"])
def test_an_agent_that_misbehaves(job: Job, mode: str) -> None:
    """The others answer in time; this one is a silence with what can be said about it."""
    # Not under RANKDBG=1: it is to have no real agent beside the false one.
    false = subprocess.Popen(
        [sys.executable, PROGRAMS / "fake_agent.py", mode],
        env={**job.environment, "RANKDBG_JOB": job.name, "RANK": "7", "PYTHONPATH": "src"},
        start_new_session=True,
    )
    try:
        job.start_ranks("waits", "waits")
        job.wait_for(lambda ranks: {rank.number for rank in ranks} == {0, 1, 7})
        job.wait_for(lambda ranks: {r.number for r in ranks if r.where and r.agent} >= {0, 1})
        timeout = 5 if mode == "half" else 20  # it is waited for in vain
        begun = time.monotonic()
        result = job.cli("ask", "--json", "--timeout", timeout, "all", "1 + 1")
        assert time.monotonic() - begun < timeout + PATIENCE
        document = json.loads(result.stdout)
        assert [(g["ranks"], g["value"]) for g in document["groups"]] == [("0-1", "2")]
        (silence,) = document["no_response"]
        assert silence["rank"] == 7
        expected = {
            "rubbish": "invalid message",
            "half": "did not respond",
            "endless": "message larger than",
            "newer": "update",
            "wrong": "invalid answer of its agent",
            "hangs up": "closed the connection",
        }
        assert expected[mode] in silence["reason"]
        # From outside it can still be seen.
        seen = job.json("stacks", "7")
        assert seen["sources"] == {"7": "py-spy"}
        # And then it is known that it does not hold the GIL.
        if mode == "half":
            late = re.compile(r"its agent did not respond within \d\.\d s")
            (row,) = [row for row in job.json("ps")["ranks"] if row["rank"] == 7]
            assert late.fullmatch(seen["why"]["7"]) and late.fullmatch(row["detail"])
    finally:
        os.killpg(false.pid, 9)
        false.wait()


def test_ptrace_is_not_permitted(job: Job) -> None:
    """The missing capability is named, with what to change."""
    as_root()
    job.start_ranks("waits", "waits")
    job.wait_at("waits", "waits")
    command = ["setpriv", "--bounding-set=-sys_ptrace", sys.executable, "-m", "rankdbg"]

    def stacks(*words: str) -> tuple[int, str]:
        result = subprocess.run(
            [*command, "stacks", "--job", job.name, *words],
            env=job.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return result.returncode, result.stdout

    def is_named() -> bool:
        status, text = stacks("--outside")
        return status == 1 and "ptrace is not permitted: the container lacks SYS_PTRACE" in text

    def is_not_needed() -> bool:
        """By agents, which answer at once unless they get no processor."""
        status, text = stacks()
        return status == 0 and "2 ranks, 3 samples, nothing moved" in text

    wait_for(is_named, lambda: stacks("--outside"))
    wait_for(is_not_needed, stacks)


def test_several_jobs(job: Job, tmp_path: Path) -> None:
    """ps shows all; a verb that needs one names them."""
    as_root()
    behave = f"{sys.executable} {PROGRAMS / 'behave.py'} waits"
    start = " ".join(
        f"RANKDBG=1 RANK=0 RANKDBG_JOB={name} {behave} & " for name in ("first", "second")
    )
    ready = f"until [ $(ls {tmp_path}/two/*.json 2>/dev/null | wc -l) = 2 ]; do sleep 0.01; done; "
    result = run(alone("ps", prefix=start + ready), RANKDBG_DIR=str(tmp_path / "two"))
    assert result.stdout.count("1 rank on 1 node") == 2
    shutil.rmtree(tmp_path / "two")
    result = run(alone("stacks", prefix=start + ready), RANKDBG_DIR=str(tmp_path / "two"))
    assert result.returncode == 2
    assert "error: 2 jobs are running here: first, second" in result.stderr
    assert "hint: choose one: --job first" in result.stderr


def test_an_unknown_job(job: Job) -> None:
    """The names that exist are said."""
    job.start_ranks("waits")
    job.wait_at("waits")
    result = rankdbg("ps", "--job", "nosuch", env=job.environment)
    assert result.returncode == 2
    assert "error: no job 'nosuch'" in result.stderr
    assert job.name in result.stderr


def test_the_node_process_is_killed_in_the_middle(job: Job) -> None:
    """One sentence, no traceback; the ranks go on."""
    job.start_ranks("waits")
    job.wait_at("waits")
    with job.session() as session:
        ranks = session.job(job.name)
        (channel,) = session._channels.values()
        os.kill(channel._process.pid, signal.SIGKILL)
        seen, (silence,) = session.stacks(ranks)
        assert seen == []
        assert "node process" in silence.reason
    job.wait_at("waits")


def test_the_node_ends_with_its_client(job: Job) -> None:
    """A client that is killed leaves no node process behind."""
    job.start_ranks("holds_gil")
    job.wait_for(lambda ranks: len(ranks) == 1)
    words = [
        sys.executable,
        "-m",
        "rankdbg",
        "ask",
        "--job",
        job.name,
        "--timeout",
        "50",
        "all",
        "1",
    ]
    client = subprocess.Popen(words, env=job.environment)

    def nodes() -> list[str]:
        listing = subprocess.run(
            ["pgrep", "-P", str(client.pid)], capture_output=True, text=True, check=False
        )
        return listing.stdout.split()

    (node,) = wait_for(nodes, "it has its node")
    client.kill()
    client.wait()
    wait_for(lambda: not os.path.exists(f"/proc/{node}"), "the node ends")
