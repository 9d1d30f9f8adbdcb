"""rankdbg run: the command is what it would be without rankdbg, and one line on stderr."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import Job, rankdbg
from waiting import PATIENCE

RUN = [sys.executable, "-m", "rankdbg", "run"]


@pytest.mark.parametrize("status", [0, 3, 255])
def test_exit_status(status: int) -> None:
    """The exit status is the command's."""
    assert rankdbg("run", "--", "sh", "-c", f"exit {status}").returncode == status


def test_death_by_a_signal() -> None:
    """A command that a signal kills is seen by the parent as killed by that signal."""
    assert rankdbg("run", "--", "sh", "-c", "kill -9 $$").returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_command(number: signal.Signals) -> None:
    """A signal that is sent to rankdbg run is handled by the command."""
    program = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.05)\n"  # pause() could miss it
    )
    command = [*RUN, sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(PATIENCE) == 7


def test_streams_are_untouched() -> None:
    """Any bytes go through stdin and stdout as they are; stderr has one line more."""
    data = bytes(range(256)) * 300
    result = subprocess.run(
        [*RUN, "--", "sh", "-c", "echo theirs >&2; cat"],
        input=data,
        capture_output=True,
        check=True,
    )
    assert result.stdout == data
    first, *rest = result.stderr.decode().splitlines()
    assert re.fullmatch(r"rankdbg: job (sh-\w{4}); look at it with: rankdbg ps --job \1", first)
    assert rest == ["theirs"]


def test_one_line_with_a_python_job() -> None:
    """The agents of the command's Pythons add nothing to that one line."""
    script = f"{sys.executable} -c 'print(1)'; {sys.executable} -c 'import os; os.fork()'"
    result = rankdbg("run", "--job", "mine", "--", "sh", "-c", script)
    assert result.stdout == "1\n"
    assert result.stderr == "rankdbg: job mine; look at it with: rankdbg ps --job mine\n"


def test_closed_stderr() -> None:
    """Without a stderr the command runs all the same."""
    words = [*RUN, "--", "sh", "-c", "exit 4"]
    result = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", *words], check=False)
    assert result.returncode == 4


def test_signals_are_not_ignored() -> None:
    """The command does not inherit the signals that Python ignores, such as SIGPIPE."""
    words = ["grep", "SigIgn", "/proc/self/status"]
    plain = subprocess.run(words, capture_output=True, text=True, check=True)
    assert rankdbg("run", "--", *words).stdout == plain.stdout


def test_environment() -> None:
    """Only RANKDBG, RANKDBG_JOB and PYTHONPATH are new in the command's environment."""
    before = {"PATH": os.environ["PATH"], "LANG": "C", "PYTHONPATH": "/theirs"}
    after = rankdbg("run", "--job", "mine", "--", "env", env=before).stdout.splitlines()
    bootstrap = Path("src/rankdbg/agent/bootstrap").resolve()
    assert dict(line.split("=", 1) for line in after) == {
        **before,
        "RANKDBG": "1",
        "RANKDBG_JOB": "mine",
        "PYTHONPATH": f"{bootstrap}:/theirs",
    }


def test_mesh_and_role_in_the_environment() -> None:
    """--mesh and --role come to the ranks as variables, without blanks."""
    result = rankdbg("run", "--mesh", "dp=2, tp=4", "--role", "trainer", "--", "env")
    assert "RANKDBG_MESH=dp=2,tp=4" in result.stdout.splitlines()
    assert "RANKDBG_ROLE=trainer" in result.stdout.splitlines()


def test_directory_is_made_absolute(tmp_path: Path) -> None:
    """A relative RANKDBG_DIR means the same after the command has changed its directory."""
    environment = {**os.environ, "RANKDBG_DIR": "agents"}
    result = rankdbg("run", "--", "printenv", "RANKDBG_DIR", env=environment, cwd=tmp_path)
    assert result.stdout == f"{tmp_path}/agents\n"


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["--", "echo", "--job", "x", "--mesh"], "--job x --mesh"),
        (["echo", "--job", "x"], "--job x"),
        (["--job", "x", "echo", "-h"], "-h"),
        (["echo", "--", "x"], "-- x"),
        (["--", "echo", "--", "--"], "-- --"),
        (["--job=x", "--", "echo", "--help", "-t"], "--help -t"),
    ],
)
def test_words_that_look_like_options(words: list[str], output: str) -> None:
    """Everything after the command's first word is the command's; -- may be left out."""
    assert rankdbg("run", *words).stdout == output + "\n"


def test_path_with_blanks_and_letters(tmp_path: Path) -> None:
    """A command in a folder with blanks and non-ASCII letters runs, and names its job."""
    script = tmp_path / "mein Läufer ж" / "tränings lauf.sh"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\necho "$0: $1"\n')
    script.chmod(0o755)
    result = rankdbg("run", "--", script, "zwei Wörter")
    assert result.stdout == f"{script}: zwei Wörter\n"
    assert result.stderr.startswith("rankdbg: job träningslauf-")


def test_script_without_interpreter_line(tmp_path: Path) -> None:
    """An executable script without #! is run by sh, as every shell does."""
    script = tmp_path / "start"
    script.write_text('echo "$0 $1"\n')
    script.chmod(0o755)
    assert rankdbg("run", "--", script, "x y").stdout == f"{script} x y\n"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["true", "--config", "a.yaml"], "true"),
        (["true", "--nproc-per-node", "8", "/src/train.py", "other.py"], "train"),
        ([sys.executable, "-m", "this.that", "x"], "that"),
        ([sys.executable, "-c", "pass"], "python"),
    ],
)
def test_name_of_the_job(words: list[str], name: str) -> None:
    """Without --job the name is that of the script, the module or the command."""
    result = rankdbg("run", "--", *words)
    assert re.match(rf"rankdbg: job {name}-\w{{4}};", result.stderr)


# --- bad input ----------------------------------------------------------------------------


def _refused(*words: object, **settings: object) -> list[str]:
    result = rankdbg("run", *words, **settings)
    assert result.returncode == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert "Traceback" not in result.stderr
    return lines


@pytest.mark.parametrize("words", [[], ["--"], ["--job", "x"], ["--job", "x", "--"]])
def test_no_command(words: list[str]) -> None:
    """Without a command there is an error that shows how one is given."""
    assert _refused(*words) == [
        "error: no command to run",
        "  hint: rankdbg run -- torchrun train.py",
    ]


def test_commands_that_are_none(tmp_path: Path) -> None:
    """Not there, not executable, a folder, empty, not on PATH: each has an error of its own."""
    script = tmp_path / "train.py"
    script.write_text("")
    assert _refused("--", "no-such-command")[0] == "error: no such command: no-such-command"
    assert _refused("--", "")[0] == "error: the command's first word is empty"
    assert _refused("--", tmp_path)[0] == f"error: {tmp_path} is a directory, not a command"
    assert _refused("--", script) == [
        f"error: {script} is not executable",
        f"  hint: rankdbg run -- python {script}",
    ]
    assert _refused("--", "train.py", cwd=tmp_path) == [
        "error: train.py is not on PATH",
        "  hint: rankdbg run -- python train.py",
    ]


def test_interpreter_that_is_not_there(tmp_path: Path) -> None:
    """A script whose #! line names nothing is explained: the kernel says `no such file`."""
    script = tmp_path / "start"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    result = rankdbg("run", "--", script)
    assert result.returncode == 2
    assert result.stderr.splitlines()[1] == (
        f"error: cannot run {script}: its first line (#!) names a program that does not exist"
    )


def test_bad_mesh() -> None:
    """A mesh that is not well formed is shown with a caret, from the option or the variable."""
    wanted = ["  pp=2,dp=x", "       ^^^^"]
    assert _refused("--mesh", "pp=2,dp=x", "--", "true")[1:3] == wanted
    environment = {**os.environ, "RANKDBG_MESH": "pp=2,dp=x"}
    assert _refused("--", "true", env=environment)[1:3] == wanted
    _refused("--mesh", "", "--", "true")


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a=b", "x(1)", "it's", "tab\t", "-x"])
def test_bad_names(name: str) -> None:
    """A job or a role whose name could not be selected later is refused."""
    assert _refused(f"--job={name}", "--", "true")[0] == f"error: invalid name for a job: {name!r}"
    assert (
        _refused(f"--role={name}", "--", "true")[0] == f"error: invalid name for a role: {name!r}"
    )


def test_unknown_option() -> None:
    """An option that run does not have is not taken for the command."""
    assert _refused("--bogus", "true")[0] == "error: unrecognized arguments: --bogus"


def test_inside_a_job(job: Job) -> None:
    """rankdbg run inside a job starts a job of its own, with the agent's folder once on the path."""
    outer = job.start(*RUN, "--job", "inner", "--", "env")
    lines = outer.communicate(timeout=PATIENCE)[0].splitlines()
    assert "RANKDBG_JOB=inner" in lines
    (path,) = [line for line in lines if line.startswith("PYTHONPATH=")]
    assert path.count("bootstrap") == 1
