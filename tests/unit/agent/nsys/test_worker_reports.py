"""A driver waits for the nsys of its workers: real processes with the variables of such."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rankdbg.agent.nsys import nsys_writers, worker_reports
from rankdbg.process import nsys_config
from waiting import wait_for

JOB = f"reports-{os.getpid()}"


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKDBG_JOB", JOB)
    monkeypatch.setattr(worker_reports, "_cluster", "")


@pytest.fixture
def writer() -> Iterator[subprocess.Popen[bytes]]:
    """Ends when its input does, and is there as soon as it has its variables."""
    with start("vllm a", JOB) as process:
        wait_for(lambda: nsys_writers.find(JOB, nsys_config.UNDER_NSYS), "its variables")
        yield process
        process.kill()


def start(worker: str, job: str, **more: str) -> subprocess.Popen[bytes]:
    environment = {nsys_writers.WORKER: worker, "RANKDBG_JOB": job, **more}
    return subprocess.Popen(["/bin/cat"], stdin=-1, stdout=-3, env=environment)


def test_who_is_waited_for(writer: subprocess.Popen[bytes]) -> None:
    """nsys of this job; neither another job's, nor what runs under nsys."""
    others = [start("b", "other"), start("c", JOB, **{nsys_config.UNDER_NSYS: "1"})]
    try:
        for other in others:
            wait_for(lambda pid=other.pid: Path(f"/proc/{pid}/comm").read_text() == "cat\n", "cat")
        assert nsys_writers.find(JOB, nsys_config.UNDER_NSYS) == {"vllm a"}
    finally:
        for other in others:
            other.communicate()


def test_until_it_has_ended(
    writer: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is said where there is nothing to wait for."""
    assert writer.stdin is not None
    writer.stdin.close()
    writer.wait()
    worker_reports.wait_until_written()
    assert capsys.readouterr().err == ""


def test_not_for_ever(
    writer: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It says whom it waits for, and who has not ended in time."""
    monkeypatch.setenv("RANKDBG_NSYS_WAIT", "0.2")
    worker_reports.wait_until_written()
    assert capsys.readouterr().err == (
        "rankdbg: waiting up to 0.2 s for the nsys reports of vllm a\n"
        "rankdbg: nsys is still running: vllm a; RANKDBG_NSYS_WAIT=SECONDS waits longer\n"
    )


class Joined:
    """What ray.init() gives back."""

    def __init__(self, address_info: object) -> None:
        self.address_info = address_info


def test_other_nodes_that_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A cluster that has ended with its driver: nothing is said, and nobody waits."""
    for context in (None, Joined(None), Joined({}), Joined({"gcs_address": "127.0.0.1:1"})):
        worker_reports.joined(context)
        worker_reports.wait_until_written()
    assert worker_reports._cluster == "127.0.0.1:1"
    monkeypatch.setattr("sys.executable", "/nowhere")
    worker_reports.wait_until_written()
    assert capfd.readouterr() == ("", "")


def test_process_that_others_have_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where SIGCHLD is ignored nobody can be waited for; it has ended all the same."""
    monkeypatch.setattr(worker_reports, "_cluster", "127.0.0.1:1")
    started: list[int] = []
    spawn = os.posix_spawn

    def spawn_and_note(*words: Any, **settings: Any) -> int:
        started.append(spawn(*words, **settings))
        return started[-1]

    monkeypatch.setattr(os, "posix_spawn", spawn_and_note)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        worker_reports.wait_until_written()
        (pid,) = started
        assert not Path(f"/proc/{pid}").exists()
    finally:
        signal.signal(signal.SIGCHLD, before)
