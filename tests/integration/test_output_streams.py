"""stdout and stderr that are closed, full, without a reader, or of another encoding."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import Job
from waiting import PATIENCE

RANKDBG = f'"{sys.executable}" -m rankdbg'
WORDS = ["--help", "--version", "ps --help", "select 0 --mesh dp=2", "rules", "completion bash"]
CLOSED = "error: cannot write the output: stdout is closed\n"
FULL = "error: cannot write the output: No space left on device\n"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """One rank that waits."""
    job = Job(f"streams-{os.urandom(3).hex()}", tmp_path_factory.mktemp("streams"))
    try:
        job.start_ranks("waits")
        job.wait_at("waits")
        yield job
    finally:
        job.end()


def shell(command: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = f"set -o pipefail; {command}"
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        **settings,
    )


@pytest.mark.parametrize(("where", "message"), [(">&-", CLOSED), ("> /dev/full", FULL)])
@pytest.mark.parametrize("words", WORDS)
def test_output_that_cannot_be_written(words: str, where: str, message: str) -> None:
    """One sentence, and status 74."""
    result = shell(f"{RANKDBG} {words} {where}")
    assert (result.returncode, result.stderr) == (74, message)


@pytest.mark.parametrize("verb", ["ps", "stacks", "ask all 1", "why", "list"])
def test_output_of_a_job_that_cannot_be_written(job: Job, verb: str) -> None:
    """The verbs that look at a job fail the same way, also with --json."""
    for words in (verb, f"{verb} --json"):
        result = shell(f"{RANKDBG} {words} --job {job.name} > /dev/full", env=job.environment)
        assert result.returncode == 74, result.stderr
        assert result.stderr.endswith(FULL) and "internal error in rankdbg" not in result.stderr


@pytest.mark.parametrize("verb", ["logs", "doctor", "phases"])
def test_what_logs_say_cannot_be_written(tmp_path: Path, verb: str) -> None:
    """Those that read files fail the same way."""
    (tmp_path / "train.log").write_text("[rank0]: CUDA out of memory\n" * 3)
    result = shell(f"{RANKDBG} {verb} train.log > /dev/full", cwd=tmp_path)
    assert result.returncode == 74
    assert result.stderr.endswith(FULL)


@pytest.mark.parametrize("where", ["2>&-", "2> /dev/full", "2> >(true)"])
def test_messages_that_cannot_be_written(where: str) -> None:
    """They are lost. The exit status and the output are what they would have been."""
    right, wrong = f"{RANKDBG} select 0 --mesh dp=2 {where}", f"{RANKDBG} nonsense {where}"
    result = shell(right)
    assert (result.returncode, result.stdout) == (0, "0\n")
    assert shell(wrong).returncode == 2


@pytest.mark.parametrize("where", ["> /dev/full 2> /dev/full", "<&- >&- 2>&-"])
def test_nothing_can_be_written(where: str) -> None:
    """The exit status alone says so."""
    result = shell(f"{RANKDBG} --help {where}")
    assert (result.returncode, result.stdout, result.stderr) == (74, "", "")


def test_a_closed_stdout_is_not_a_file(tmp_path: Path) -> None:
    """The next file that is opened does not become stdout: what is written to that is lost
    nowhere, and what is kept has nothing of it."""
    result = shell(f"{RANKDBG} nonsense >&- 2> said; cat said", cwd=tmp_path)
    assert result.stdout.startswith("error: unknown verb 'nonsense'")
    code = (
        "import sys\n"
        "from rankdbg.frontends.standard_streams import guarded\n"
        "with guarded(), open('kept', 'w') as file:\n"
        "    print(file.fileno(), file=file)\n"
    )
    shell(f'"{sys.executable}" -c "{code}" <&- >&- 2>&-', cwd=tmp_path)
    assert int((tmp_path / "kept").read_text()) > 2


def test_the_shell_without_stdin() -> None:
    """It has no command to execute, and ends."""
    result = shell(f"{RANKDBG} shell <&-")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_the_shell_ends_when_its_output_fails(job: Job) -> None:
    """The commands behind the one whose output is lost are not executed."""
    typed = "ask all (__import__('sys').__setattr__('first', 1))\\nask all no\\nask all no\\n"
    words = f"{RANKDBG} shell --job {job.name}"
    result = shell(f'printf "{typed}" | {words} > /dev/full', env=job.environment)
    assert (result.returncode, result.stderr.count("error: ")) == (74, 1)


@pytest.mark.parametrize("unbuffered", ["", pytest.param("1", marks=pytest.mark.extra)])
def test_a_reader_that_is_gone(unbuffered: str) -> None:
    """Status 141, as of a program that SIGPIPE has ended, and no word."""
    command = f"{RANKDBG} select ': ' --mesh tp=100000 --json | head -1 > /dev/null"
    result = shell(command, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
    assert (result.returncode, result.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "gbk", "utf-8:surrogateescape"])
def test_an_encoding_that_lacks_characters(job: Job, encoding: str) -> None:
    """What it lacks is spelled out, in text and in messages."""
    environment = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    code = "type('V', (), {'__repr__': lambda self: '損\U0001f600\\udc9b'})()"
    command = [sys.executable, "-m", "rankdbg", "ask", "0", code, "--job", job.name]
    result = subprocess.run(
        command, capture_output=True, env={**job.environment, **environment}, check=False
    )
    assert result.returncode == 0, result.stderr
    shown = result.stdout.decode(encoding.partition(":")[0])
    assert "\\udc9b" in shown
    assert ("😀" if encoding.startswith("utf") else "\\U0001f600") in shown


def test_a_traceback_for_a_report_is_safe(tmp_path: Path) -> None:
    """RANKDBG_TRACEBACK=1 shows it spelled out, and the status stays 70."""
    (tmp_path / "sitecustomize.py").write_text(
        "import rankdbg.selection.mesh\n"
        "def parse(text): raise ValueError('\\x1b[2J')\n"
        "rankdbg.selection.mesh.parse = parse\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "RANKDBG_TRACEBACK": "1"}
    result = shell(f"{RANKDBG} select 0 --mesh dp=2", env=environment)
    assert result.returncode == 70
    assert "Traceback" in result.stderr and "ValueError: \\x1b[2J" in result.stderr
    assert "\x1b" not in result.stderr


def test_json_is_what_it_was(job: Job) -> None:
    """A stream that guards text changes no JSON."""
    value = job.json("ask", "0", "'\x1b[2J\u202e損'")["groups"][0]["value"]
    assert value == repr("\x1b[2J\u202e損")
    assert json.loads(job.cli("ps", "--json").stdout)["ranks"]
