"""rankdbg top, in a real terminal: jobs, verdicts, reports, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_nvml import build_fake_nvml
from jobs import Job, rankdbg, start_demo
from tmux_screen import TOP, OpenTop
from waiting import processes_beside, wait_for


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """Eight ranks, of which rank 5 reads a shard that never comes."""
    scratch = tmp_path_factory.mktemp("demo")
    job = Job(f"demo-{os.urandom(3).hex()}", scratch)
    start_demo(job, scratch, options=("--mesh", "dp=4,tp=2"))
    yield job
    job.end()


def test_verdict_groups_and_reports(demo: Job, open_top: OpenTop) -> None:
    """The only job is opened at once; who holds it up is said without a key."""
    screen = open_top(demo.environment)
    seen = screen.wait("The job is stuck", "culprit  rank 5 (dp=2 tp=1", "[waits-for-file]")
    assert f"{demo.name}   8 ranks on 1 node   dp=4 tp=2" in seen
    assert re.search(r"^> 0-4,6-7  running  Ring.receive  train.py:30\b", seen, re.MULTILINE)
    assert re.search(r"^  5        running  read_shard .* <- alone here$", seen, re.MULTILINE)
    screen.type("j", "s")
    seen = screen.wait("1 rank, 3 samples, nothing moved", "read_shard data.py:11")
    assert "rank 5" in seen and "Ring.receive" not in seen
    screen.type("w")
    screen.wait("waiting     ranks 0-4,6-7 for rank 5", "confidence  medium")
    screen.type("Escape")
    screen.wait("<- alone here")
    screen.type("Enter")
    seen = screen.wait("RANK  COORDINATES  HOST", "dp=2 tp=1")
    assert "dp=0 tp=0" not in seen
    screen.type("Escape")
    screen.wait("> 5  ")
    screen.type("Escape")
    screen.wait("JOB", f"> {demo.name}", "stuck for", "rank 5 (dp=2 tp=1")


def test_filter_sizes_and_pause(demo: Job, open_top: OpenTop) -> None:
    """The grammar of all verbs; 80 × 24 is no minimum, and a tiny terminal gets one sentence."""
    screen = open_top(demo.environment)
    screen.wait("0-4,6-7")
    screen.type("/")
    screen.type("-l", "dq=1")
    screen.type("Enter")
    screen.wait("filter: dq=1_", "no dimension dq")
    screen.type("BSpace", "BSpace", "BSpace", "BSpace")
    screen.type("-l", "dp=3")
    screen.type("Enter")
    screen.wait("filter dp=3", "> 6-7  ")
    screen.resize(60, 20)
    screen.wait("filter dp=3", "> 6-7  ")
    screen.resize(30, 6)
    screen.wait("This terminal has 30 × 6", "needed. q quits.")
    screen.resize(100, 30)
    screen.wait("filter dp=3", "> 6-7  ")
    screen.type("+", "p")
    screen.wait("paused at")
    screen.type("p")
    screen.wait("every 1 s")
    screen.type("?")
    screen.wait("look more often, less often")


def test_ends_without_a_trace(demo: Job, open_top: OpenTop) -> None:
    """By q, Ctrl-C or a signal: the screen is as before, and the terminal too."""
    tops = "; read nothing; ".join(f"{TOP}; echo status $?" for _ in range(3))
    screen = open_top(demo.environment, line=f"echo before; {tops}; stty -a; read nothing")
    screen.wait("Ring.receive")
    assert screen.told("alternate_on") == "1"
    screen.type("q")
    screen.wait("before\nstatus 0")
    screen.type("Enter")
    screen.wait("Ring.receive")
    screen.type("C-c")
    screen.wait("status 0\n\nstatus 0")
    screen.type("Enter")
    screen.wait("Ring.receive")
    (pid,) = _processes_of(demo, "rankdbg top")
    os.kill(pid, signal.SIGTERM)
    seen = screen.wait("status 143", "icanon")
    assert not re.search(r"-icanon|-echo\b|-isig|Ring", seen)
    assert (screen.told("alternate_on"), screen.told("cursor_flag")) == ("0", "1")


def test_no_colour(demo: Job, open_top: OpenTop, tmp_path: Path) -> None:
    """With NO_COLOR no style is set, and nothing is lost."""
    line = f"read nothing; exec {TOP}"
    screen = open_top({**demo.environment, "NO_COLOR": "1"}, line=line)
    screen.record(tmp_path / "bytes")
    screen.type("Enter")
    screen.wait("> 0-4,6-7", "<- alone here")
    styles = {*re.findall(rb"\x1b\[([0-9;]*)m", (tmp_path / "bytes").read_bytes())}
    assert not {code for style in styles for code in style.split(b";")} - {b"", b"0"}


def test_a_target_that_gives_no_answer(demo: Job, open_top: OpenTop) -> None:
    """The screen stays alive: it says so, keys work, and it recovers."""
    screen = open_top(demo.environment, "--timeout", "3")
    screen.wait("Ring.receive")
    nodes = wait_for(lambda: _processes_of(demo, "rankdbg.node"))
    for pid in nodes:
        os.kill(pid, signal.SIGSTOP)
    screen.wait("no response for", "Ring.receive")
    screen.type("?")
    screen.wait("look more often")
    screen.type("Escape")
    for pid in nodes:
        with contextlib.suppress(ProcessLookupError):  # another one has been started
            os.kill(pid, signal.SIGCONT)
    screen.wait("Ring.receive")
    screen.wait_without("no response for")


def test_use_of_gpus(demo: Job, open_top: OpenTop, tmp_path: Path) -> None:
    """Of the rank that NVML names; in a container, which hides that, of the node."""
    (five,) = [rank.pid for rank in demo.ranks() if rank.number == 5]
    variables = f"LD_LIBRARY_PATH={build_fake_nvml(tmp_path)} FAKE_NVML_PIDS={five}"
    screen = open_top(demo.environment, line=f"exec env {variables} {TOP}")
    seen = wait_for(lambda: re.search(r"   GPU (0|10)%", screen.text()), screen.text)[1]
    if seen == "0":
        assert re.search(r"^  5 .* 0%", screen.text(), re.MULTILINE)


def test_not_a_terminal() -> None:
    """One sentence, and what to type instead."""
    for words, told in (
        ((), "top needs a terminal"),
        (("--json",), "rankdbg ps --json"),
        (("tq=",), "error:"),
        (("--every", "0"), "invalid time '0'"),
    ):
        result = rankdbg("top", *words)
        assert result.returncode == 2
        assert told in result.stderr
        assert not result.stdout


def test_dumb_terminal(open_top: OpenTop) -> None:
    screen = open_top({}, line=f"TERM=dumb {TOP}; echo status $?; read nothing")
    screen.wait("cannot draw on a terminal with TERM=dumb", "status 2")


def _processes_of(job: Job, word: str) -> list[int]:
    """Of those that look at the job."""
    found = []
    for pid in processes_beside(os.getpid(), word.split()[-1]):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if f"RANKDBG_DIR={job.directory}".encode() in environment and word.encode() in command:
            found.append(pid)
    return found
