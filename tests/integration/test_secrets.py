"""A real job that has a secret wherever a program may have one: nothing that rankdbg writes or
prints unasked has it, and nobody else can read what it writes."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job
from rankdbg.investigations.answers import Answers
from terminals import in_terminal
from waiting import PATIENCE, wait_for

MARK = "Zq9" + "hunter2" + "kX4"
PROGRAM = PROGRAMS / "holds_secrets.py"
ENVIRONMENT = {
    "SECRET_MARK_TOKEN": MARK,
    "DBPASS": MARK,
    "CREDS": f"bob:{MARK}",
    "CONNECTION": f"AccountName=a;AccountKey={MARK};X=y",
    "INDEX_URL": f"https://{MARK}@pypi.example.com/simple",
    "SETTINGS": f"{{'hf_token': '{MARK}'}}",
    "PLAIN": "visible",
}
ARGUMENTS = (
    *("--api-key", MARK, f"+wandb.api_key={MARK}", f"{{'password': '{MARK}'}}"),
    *("--command", f"bash -c 'export X_API_KEY={MARK}'"),
)


class Holding:
    """That job, beside its log; everything is done with a umask that hides nothing."""

    def __init__(self, job: Job, scratch: Path) -> None:
        self.job = job
        self.scratch = scratch
        self.log = scratch / "work" / "rank_0.log"
        self.log.parent.mkdir()

    def start(self, *words: str, **settings: Any) -> Any:
        environment = {**ENVIRONMENT, "RANK": "0", "WORLD_SIZE": "1"}
        with self.log.open("wb") as log:
            return self.job.start(
                *(sys.executable, PROGRAM, *ARGUMENTS, *words),
                env=environment,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
                **settings,
            )

    def wait(self) -> None:
        wait_for(lambda: "CUDA" in self.log.read_text(), "its log")
        self.job.wait_for(lambda ranks: bool(ranks))

    def cli(self, verb: str, *words: object) -> str:
        """What it prints, which never has the secret."""
        result = self.job.cli(verb, *words, umask=0, cwd=self.scratch)
        assert "Traceback" not in result.stderr
        shown = result.stdout + result.stderr
        assert MARK not in shown, shown
        return shown

    def in_terminal(self, verb: str, *words: object) -> str:
        environment = self.job.environment
        return in_terminal(verb, "--job", self.job.name, *words, cwd=self.scratch, **environment)


@pytest.fixture
def holding(job: Job, tmp_path: Path) -> Iterator[Holding]:
    yield Holding(job, tmp_path)
    job.end()


def check_private(directory: Path) -> str:
    """All that is in these files; files 0600, and folders 0700."""
    paths = [directory, *directory.rglob("*")]
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in paths if path.is_dir()} == {"0o700"}
    files = [path for path in paths if path.is_file()]
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in files} == {"0o600"}
    return "".join(path.read_text(errors="replace") for path in files)


def check_clean(directory: Path) -> str:
    text = check_private(directory)
    assert MARK not in text, [line for line in text.splitlines() if MARK in line]
    return text


@pytest.mark.parametrize("title", [pytest.param((), marks=pytest.mark.extra), ("title",)])
def test_a_snapshot_has_no_secret(holding: Holding, title: tuple[str, ...]) -> None:
    """Environment, command lines, titles, children, locals: masked where they say so."""
    holding.start(*title)
    holding.wait()
    for verb in (
        ("save", "above/snap"),
        ("stacks", "--locals", "--threads", "all", "--save", "above/stacks"),
        ("why", "--save", "above/why"),
        ("ps", "--all", "--json"),
    ):
        holding.cli(*verb)
    text = check_clean(holding.scratch / "above")
    assert '"PLAIN": "visible"' in text
    assert "'lr': 0.1" in text
    assert "postgres://bob:***@db:5432/x" in text


def test_from_outside_too(holding: Holding) -> None:
    """py-spy's locals are masked as the agent's are."""
    holding.start(agent=False)
    holding.wait()
    holding.cli("stacks", "--locals", "--save", "above/stacks")
    assert "talk" in check_clean(holding.scratch / "above")


def test_what_is_asked_for_is_shown_but_not_kept(holding: Holding) -> None:
    """Who asks a rank for its token sees the token in a terminal; a snapshot has it masked."""
    holding.start()
    holding.wait()
    shown = holding.in_terminal("ask", "0", "hf_token", "--save", "asked")
    assert MARK in shown
    check_clean(holding.scratch / "asked")
    again = holding.job.cli("ask", "all", "hf_token", "-t", "snapshot:asked", cwd=holding.scratch)
    assert again.stdout.split()[-1] == "***"


@pytest.mark.parametrize("expression", ["hf_token", "settings", "[client, {'a': settings}]"])
def test_what_is_asked_for_is_masked_in_a_pipe(holding: Holding, expression: str) -> None:
    """Also as JSON, in a notebook, and inside of a dict or an object; a terminal shows it."""
    holding.start()
    holding.wait()
    assert "***" in holding.cli("ask", "0", expression)
    assert "***" in holding.cli("ask", "0", expression, "--json")
    assert "***" in holding.cli("ask", "0", expression, "--values")
    assert MARK in holding.in_terminal("ask", "0", expression)
    with holding.job.session() as session:
        ranks = session.job(holding.job.name)
        answers = Answers(session.evaluate(ranks, expression), ranks, expression)
    page = answers._repr_html_()
    assert "***" in page and MARK not in page
    assert MARK in answers.records()[0]["value"]  # a program gets the value


def test_an_uncaught_exception_is_saved_without(holding: Holding) -> None:
    """Its message, the locals of its frames, the command line."""
    process = holding.start(
        "fail", options=("--save-on-error", str(holding.scratch / "a/b")), umask=0
    )
    process.wait(timeout=PATIENCE)
    text = check_clean(holding.scratch / "a")
    assert "RuntimeError: 401 for Client(host='db', api_key='***')" in text


def test_a_rank_held_at_its_exception(holding: Holding) -> None:
    """Its message is masked in rosters and lists of stops."""
    holding.start("fail", options=("--break-on-error",))
    holding.job.wait_for(lambda ranks: bool(ranks) and ranks[0].state == "stopped")
    assert "401 for Client" in holding.cli("ps", "--json")
    assert "401 for Client" in holding.cli("list")
    assert "401 for Client" in holding.cli("list", "--json")


def test_logs_and_diagnoses(holding: Holding) -> None:
    """Lines are masked, and the diagnosis is the one of the line as it was."""
    holding.start()
    holding.wait()
    assert "CUDA out of memory" in holding.cli("logs", holding.log)
    assert "cuda_oom" in holding.cli("doctor", holding.log, "--save", "x/report")
    assert "cuda_oom" in holding.cli("doctor", holding.log, "--json")
    assert "HF_TOKEN=***" in check_clean(holding.scratch / "x")
    holding.cli("phases", holding.log)


def test_watch_keeps_no_secret(holding: Holding) -> None:
    """Neither the report, nor the stacks, nor the snapshot of a hang."""
    command = [sys.executable, str(PROGRAM), *ARGUMENTS]
    quick = ("--hang-after", "1", "--look-every", "0.3", "--cuda", "none", "--abort")
    with holding.log.open("wb"):
        result = holding.job.cli(
            *("watch", *quick, "--output-dir", "kept/here", "--", *command),
            env={**ENVIRONMENT, "RANK": "0", "WORLD_SIZE": "1"},
            cwd=holding.scratch,
            umask=0,
        )
    assert result.returncode == 86, result.stderr
    check_clean(holding.scratch / "kept")
    report = json.loads((holding.scratch / "kept/here/report.json").read_text())
    assert report["stuck"] is True


@pytest.mark.parametrize("umask", [0, 0o022])
def test_collected_files_are_private(holding: Holding, umask: int) -> None:
    """They come byte for byte, with all that is in them, for their owner alone."""
    holding.start()
    holding.wait()
    home = holding.scratch / "far/home"
    result = holding.job.cli("collect", "all", home, umask=umask)
    assert "collected 1 file" in result.stdout, result.stderr
    assert MARK in check_private(holding.scratch / "far")


def test_a_file_that_others_could_read_is_closed(holding: Holding) -> None:
    """What an earlier collection has left readable, and is added to, is private afterwards."""
    holding.start()
    holding.wait()
    home = holding.scratch / "home"
    holding.job.cli("collect", "all", home)
    (copy,) = home.rglob("rank_0.log")
    copy.chmod(0o644)
    with holding.log.open("a") as log:
        log.write("one more line\n")
    holding.job.cli("collect", "all", home)
    assert copy.read_text().endswith("one more line\n")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_profiles_are_private(holding: Holding) -> None:
    """The picture, the table and each rank's own file."""
    holding.start()
    holding.wait()
    holding.cli("profile", "all", "--seconds", "1", "-o", "deep/profile")
    check_clean(holding.scratch / "deep")
    assert list((holding.scratch / "deep/profile/ranks").iterdir())


def test_one_long_argument(job: Job) -> None:
    """It is cut, and every verb goes on."""
    code = "import threading; threading.Event().wait()"
    long = "a" * (os.sysconf("SC_PAGE_SIZE") * 32 - 1)
    job.start(sys.executable, "-c", code, long, env={"RANK": "0", "WORLD_SIZE": "1"})
    job.wait_for(lambda ranks: bool(ranks))
    (rank,) = job.ranks()
    assert rank.command[-1] == f"… [{len(long)} characters left out: too long to mask]"
    assert job.cli("why").returncode in (0, 1)
