"""`rankdbg why` from the first moment of a job on: who only starts is not accused, who hangs is."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from jobs import PROGRAMS, TORCHRUN, Job, command, meeting
from torch_ranks import fork_ranks, needs_torch
from waiting import TEST_SECONDS, wait_for

pytestmark = [needs_torch, pytest.mark.slow, pytest.mark.timeout(2 * TEST_SECONDS)]

STARTING = PROGRAMS / "starting"
ASKED: tuple[str, ...] = ()  # agents, where there are any
OUTSIDE = ("--outside",)
LAUNCHERS = {
    "launch": lambda *words: (sys.executable, PROGRAMS / "launch.py", *words),
    "torchrun": lambda *words: (*TORCHRUN, *words),
    "fork": fork_ranks,  # where it does not matter how torch is loaded
}


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(f"start-{os.urandom(3).hex()}", tmp_path)
    yield job
    job.end()


class Start:
    """A job of two ranks of a program of programs/starting, and its output."""

    def __init__(
        self,
        job: Job,
        tmp_path: Path,
        program: str,
        launcher: str = "launch",
        agent: bool = True,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._log = tmp_path / "log"
        with self._log.open("w") as log:
            self._process = job.start(
                *LAUNCHERS[launcher](2, STARTING / program),
                agent=agent,
                env={**meeting(), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), **env},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def has_said(self, words: str) -> bool:
        assert self._process.poll() is None, self.text()
        return self.text().count(words) == 2

    def text(self) -> str:
        return self._log.read_text()


class Questions:
    """`why`, asked again and again."""

    def __init__(self, job: Job, ways: tuple[tuple[str, ...], ...]) -> None:
        """In turn with the options of each way."""
        self._command = command("why", "--json", "--job", job.name)
        self._ways = itertools.cycle(ways)
        self._environment = job.environment
        self._running: list[subprocess.Popen[str]] = []
        self.answers: list[Any] = []

    def ask(self) -> None:
        self.collect()
        if not self._running:
            self._running.append(
                subprocess.Popen(
                    [*self._command, *next(self._ways)],
                    env=self._environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )

    def collect(self) -> None:
        for process in [p for p in self._running if p.poll() is not None]:
            self._running.remove(process)
            text, errors = process.communicate()
            if process.returncode == 0:
                self.answers.append(json.loads(text))
            else:  # before its first process is there
                assert "no job" in errors, errors

    def is_answered(self) -> bool:
        self.collect()
        return not self._running


@pytest.mark.parametrize(
    ("launcher", "agent", "ways"),
    [
        ("launch", True, (ASKED, OUTSIDE)),
        pytest.param("torchrun", False, (ASKED,), marks=pytest.mark.extra),
    ],
    ids=["agent", "torchrun"],
)
def test_an_ordinary_start(
    job: Job, tmp_path: Path, launcher: str, agent: bool, ways: tuple[tuple[str, ...], ...]
) -> None:
    """Imports, a rank that arrives late, and constructors: nobody is accused, whenever
    one asks, and nothing is said to be unreachable or to compile that is not."""
    start = Start(job, tmp_path, "ordinary.py", launcher, agent)
    questions = Questions(job, ways)

    def has_begun() -> bool:
        questions.ask()
        return start.has_said("first step")

    wait_for(has_begun, start.text)
    wait_for(questions.is_answered, questions.answers)
    assert len(questions.answers) >= 5, questions.answers
    for answer in questions.answers:
        said = json.dumps(answer, indent=1)
        assert not answer["stuck"], said
        assert "cannot reach" not in said
        assert "compiles kernels" not in said


COMPILER = """#!/bin/sh
case "$*" in *.cpp*) touch {begun}; sleep 1000 ;; esac
exec g++ "$@"
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler")
def test_a_compile_that_hangs(job: Job, tmp_path: Path) -> None:
    """A compiler that does nothing is found, young as the job is, with how long it has run."""
    compiler, begun = tmp_path / "compiler", tmp_path / "begun"
    compiler.write_text(COMPILER.format(begun=begun))
    compiler.chmod(0o700)
    start = Start(job, tmp_path, "compile_hangs.py", "fork", env={"CXX": str(compiler)})
    wait_for(begun.exists, start.text)
    for options in (ASKED, OUTSIDE):
        verdict = why_stuck(job, *options)
        said = json.dumps(verdict, indent=1)
        assert (verdict["culprit"], verdict["cause"]) == ("1", "compile-hangs"), said
        assert re.search(r"its child \d+ \(sh .*\) started \d+ s ago", said), said


@pytest.mark.extra
def test_a_master_on_another_port(job: Job, tmp_path: Path) -> None:
    """A rank that connects to a port on which no process listens is found at once, with both
    addresses; the time since the start is said."""
    other = meeting()["MASTER_PORT"]
    start = Start(job, tmp_path, "wrong_port.py", "fork", env={"WRONG_PORT": other})
    wait_for(lambda: start.has_said("joins"), start.text)
    for options in (ASKED, OUTSIDE):
        verdict = why_stuck(job, *options)
        said = json.dumps(verdict, indent=1)
        assert (verdict["culprit"], verdict["cause"]) == ("1", "master-unreachable"), said
        assert f"cannot reach the master at 127.0.0.1:{other}" in said
        assert "rank 0 listens at 127.0.0.1:" in said
        assert re.search(r"its ranks started \d+ s ago", verdict["says"]), said


def why_stuck(job: Job, *options: str) -> Any:
    """The verdict, as soon as the job is stuck: where the machine is busy, a rank that hangs may
    be seen before it does."""
    seen: list[Any] = []

    def verdict() -> Any:
        seen[:] = [job.json("why", "--longest", "30", *options)]
        return seen[0] if seen[0]["stuck"] else None

    return wait_for(verdict, lambda: json.dumps(seen, indent=1))
