"""The command line itself: help, errors, pipes, colour, completion."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import Job, rankdbg
from rankdbg.frontends.cli import VERBS, load, verb_parser
from terminals import in_terminal
from waiting import TEST_SECONDS, wait_for


def test_help_names_every_verb() -> None:
    """rankdbg --help, -h, help and no words at all say the same."""
    texts = {rankdbg(*words).stdout for words in (["--help"], ["-h"], ["help"], [])}
    assert len(texts) == 1
    (text,) = texts
    assert all(f"  {verb}" in text for verb in VERBS)
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb(verb: str) -> None:
    """Its first words are its docstring, in 80 columns; rankdbg help VERB is the same."""
    text = rankdbg(verb, "--help", env={**os.environ, "COLUMNS": "80"}).stdout
    assert (load(verb).__doc__ or "").splitlines()[0] in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert rankdbg("help", verb, env={**os.environ, "COLUMNS": "80"}).stdout == text
    assert verb_parser(verb).prog == f"rankdbg {verb}"


def test_help_imports_nothing_heavy() -> None:
    """What --help needs is argparse and little else."""
    code = (
        "import sys; from rankdbg.frontends import cli; cli.main(['--help']);"
        "print([m for m in ('rankdbg.session', 'json', 'dataclasses', 'subprocess')"
        " if m in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stderr == "[]\n"


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["stakcs"], "unknown verb 'stakcs'", "did you mean: rankdbg stacks"),
        (["xyz"], "unknown verb 'xyz'", "rankdbg --help"),
        (["ps", "--nosuch"], "unrecognized arguments: --nosuch", "rankdbg ps --help"),
        (["ps", "-t", "slrum:1"], "unknown target 'slrum'", ""),
        (["ps", "-t", "local:x"], "invalid target local:x: local takes no argument", ""),
        (["ps", "-t", "snapshot:"], "snapshot: names no directory", "snapshot:DIR"),
        (["ps", "--timeout", "0"], "'0': expected a number of seconds above 0", ""),
        (["ps", "--timeout", "soon"], "'soon': expected a number of seconds above 0", ""),
        (["stacks", "--samples", "0"], "'0': expected a whole number from 1 to 1000", ""),
        (["stacks", "--threads", "some"], "invalid choice: 'some'", ""),
        (["ask", "all"], "the following arguments are required: EXPRESSION", ""),
        (
            ["ask", "all", "x", "--frame", "a b"],
            "invalid --frame 'a b': expected a number or the name",
            "",
        ),
        (["select", "tp=0", "--mesh", "tp=x"], "tp=x", ""),
        (["select", "5:2", "--mesh", "tp=8"], "5:2", ""),
        (["completion", "tcsh"], "invalid choice: 'tcsh'", ""),
    ],
)
def test_bad_input(words: list[str], message: str, hint: str) -> None:
    """One clear sentence, the next step, exit status 2, nothing on stdout, no traceback."""
    result = rankdbg(*words)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert hint in result.stderr
    assert "Traceback" not in result.stderr


def test_select_without_a_job() -> None:
    """With --mesh no job is needed, and the printed text can be pasted back."""
    text = rankdbg("select", "ranks(pp=1, tp=0)", "--mesh", "pp=2,dp=2,tp=2").stdout.strip()
    assert text == "4,6"
    document = json.loads(rankdbg("select", text, "--mesh", "pp=2,dp=2,tp=2", "--json").stdout)
    assert document["schema"] == "rankdbg.select/1"
    assert document["ranks"] == [4, 6]


def test_the_place_of_a_fault_has_a_caret() -> None:
    """As in a compiler's message."""
    result = rankdbg("select", "ranks(pp=1, dq=0)", "--mesh", "pp=2,dp=2")
    assert result.stderr.splitlines()[:3] == [
        "error: no dimension dq",
        "  ranks(pp=1, dq=0)",
        "              ^^",
    ]


def test_a_reader_that_has_seen_enough() -> None:
    """`rankdbg ... | head -1` ends quietly."""
    command = f"{sys.executable} -m rankdbg select ': ' --mesh tp=100000 --json | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert result.stderr == ""


def test_colour_only_in_a_terminal(job: Job) -> None:
    """NO_COLOR, TERM=dumb and pipes are honoured."""
    job.start_ranks("waits", "waits", "waits_elsewhere")
    job.wait_at("waits", "waits", "waits_elsewhere")
    words = ("stacks", "--job", job.name)
    place = {"RANKDBG_DIR": str(job.directory)}
    assert "\x1b[31;1m<- odd one out" in in_terminal(*words, **place)
    assert "\x1b" not in in_terminal(*words, **place, NO_COLOR="1")
    assert "\x1b" not in in_terminal(*words, **place, TERM="dumb")
    assert "\x1b" not in job.cli("stacks").stdout


def test_an_encoding_without_box_characters(job: Job) -> None:
    """An ASCII terminal gets an ASCII tree."""
    job.start_ranks("waits", "waits_elsewhere")
    job.wait_at("waits", "waits_elsewhere")
    result = job.cli("stacks", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert result.returncode == 0, result.stderr
    assert "`- <module> behave.py" in result.stdout


def test_completion_knows_verbs_options_jobs_and_labels(job: Job) -> None:
    """What the shells' scripts call."""
    job.start_ranks("waits", "waits", options=("--mesh", "tp=2", "--role", "policy"))
    job.wait_at("waits", "waits")

    def complete(*words: str) -> list[str]:
        return rankdbg("_complete", "--", *words, env=job.environment).stdout.split()

    assert complete("st") == ["stacks"]
    assert set(complete("")) == set(VERBS)
    assert complete("stacks", "--thr") == ["--threads"]
    assert complete("stacks", "--threads", "") == ["all", "main"]
    # These two look, for 2 s at most: on a busy machine they may find nothing, by design.
    wait_for(lambda: job.name in complete("ps", "--job", ""), "the job's name")
    labels = {"all", "tp=", "role=policy", "state=running", "0", "1"}
    wait_for(lambda: labels <= {*complete("stacks", "")}, lambda: complete("stacks", ""))
    assert complete("completion", "") == ["--help", "-h", "bash", "fish", "zsh"]
    assert complete("nosuch", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_valid(shell: str) -> None:
    """Each shell takes its script, and completes a verb with it."""
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    script = rankdbg("completion", shell).stdout
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    checks = {
        "bash": 'COMP_WORDS=(rankdbg sta); COMP_CWORD=1; _rankdbg; echo "${COMPREPLY[@]}"',
        "zsh": "echo $+functions[_rankdbg]",
        "fish": "complete -C 'rankdbg sta'",
    }
    before = "autoload -U compinit; compinit -u;" if shell == "zsh" else ""
    result = subprocess.run(
        [shell, "-c", f"{before}\n{script}\n{checks[shell]}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == ("1" if shell == "zsh" else "stacks")


@pytest.mark.slow
def test_demo() -> None:
    """It finds the rank that hangs, in 80 columns, and leaves nothing running."""
    result = rankdbg("demo", timeout=TEST_SECONDS)
    assert result.returncode == 0, result.stderr
    assert "culprit     rank 5 (dp=2 tp=1" in result.stdout
    assert "[waits-for-file]" in result.stdout
    assert "waiting     ranks 0-4,6-7 for rank 5, in Ring.receive" in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    name = result.stdout.split("--job ")[1].split()[0]
    assert name not in rankdbg("ps").stdout


def test_demo_reports_mistakes_before_it_starts() -> None:
    result = rankdbg("demo", env={**os.environ, "RANKDBG_PATIENCE": "x"})
    assert (result.returncode, result.stdout) == (2, "")
    assert "RANKDBG_PATIENCE=x" in result.stderr


@pytest.mark.slow
def test_demo_keep() -> None:
    """--keep leaves the job, and says how to end it."""
    result = rankdbg("demo", "--keep", timeout=TEST_SECONDS)
    assert result.returncode == 0, result.stderr
    name = result.stdout.split("--job ")[1].split()[0]
    launcher = int(result.stdout.split("kill ")[1].split()[0])
    try:
        document = json.loads(rankdbg("ask", "5", "step", "--json", "--job", name).stdout)
        assert document["groups"][0]["value"] == "7"
    finally:
        os.kill(launcher, 15)

    def gone() -> bool:
        said = rankdbg("ps", "--job", name).stderr
        return f"no job '{name}'" in said or "no job is running" in said

    wait_for(gone)


def test_check_where_no_job_has_run(tmp_path: Path) -> None:
    """That there is no directory for agents yet is no fault."""
    environment = {**os.environ, "RANKDBG_DIR": str(tmp_path / "agents")}
    result = rankdbg("check", "-t", "local", "--json", "--timeout", "30", env=environment)
    (node,) = json.loads(result.stdout)["nodes"].values()
    assert node["findings"]["agents' directory"]["works"] is True, node
