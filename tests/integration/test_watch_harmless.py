"""Beside a command, `rankdbg watch` fails in every way that it can, and the command does not notice:
it goes on, gets its signals and ends with its own status."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobs import PROGRAMS, Job, rankdbg
from rankdbg.frontends.watch.sessions import ReportsOfVerdicts
from rankdbg.investigations.watch.reconnecting import Reaching
from rankdbg.investigations.watch.watch_settings import WatchSettings
from rankdbg.investigations.watch.watcher import Watcher
from tiers import chiefly
from waiting import PATIENCE, wait_for
from watching import QUICK, WATCHED, Watch


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(f"harmless-{os.urandom(3).hex()}", tmp_path)
    yield job
    job.end()


# How long a watch waits, when the command has ended, for a watching process that is stuck.
SOON = "rankdbg.frontends.watch.supervisor:FAREWELL_SECONDS=1"
# Ends when it is told to, with a status that is nobody else's.
UNTIL_TOLD = ("sh", "-c", "until [ -e end ]; do sleep 0.05; done; exit 7")


@contextmanager
def beside(job: Job, tmp_path: Path, *words: object, **settings: object) -> Iterator[Watch]:
    environment = {**job.environment, **settings.pop("env", {})}  # type: ignore[dict-item]
    with Watch(tmp_path, environment, "--job", job.name, *words, **settings) as watch:
        yield watch


def signalled(job: Job, tmp_path: Path, *options: object, **settings: object) -> object:
    command = (sys.executable, WATCHED, "handle-signals")
    return beside(job, tmp_path, *QUICK, *options, "--", *command, **settings)


# --- what fails ---------------------------------------------------------------------------------


def scheduler(tmp_path: Path, answer: str) -> tuple[Path, dict[str, str]]:
    """An allocation whose Slurm commands do this: a file with an x for each call, and the environment."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("squeue", "srun"):
        (tools / name).write_text(f'#!/bin/sh\necho x >> "$CALLS"\n{answer}\n')
        (tools / name).chmod(0o755)
    calls = tmp_path / "calls"
    path = f"{tools}:{os.environ['PATH']}"
    return calls, {"PATH": path, "SLURM_JOB_ID": "4711", "CALLS": str(calls)}


def test_scheduler_fails(job: Job, tmp_path: Path) -> None:
    """In an allocation whose squeue fails the command runs to its end; the failure is said once,
    however often it is tried again."""
    calls, environment = scheduler(tmp_path, 'echo "no controller" >&2; exit 1')
    with beside(job, tmp_path, *QUICK, "--", *UNTIL_TOLD, env=environment) as watch:
        watch.wait_until_said("squeue failed; no controller; the job runs unwatched")
        wait_for(lambda: calls.read_text().count("x") >= 4, "another attempt")
        (tmp_path / "end").touch()
        assert watch.wait() == 7
        assert watch.said.count("no controller") == 1


@pytest.mark.parametrize(
    "answer",
    ["exec sleep 600", "echo '[[{\"jobs\": 7}, null'; exit 0", "head -c 3000 /dev/urandom; exit 0"],
    ids=["never", "nonsense", "no text"],
)
def test_scheduler_that_answers_badly(job: Job, tmp_path: Path, answer: str) -> None:
    """squeue hangs, or prints what no squeue prints: the command's status is passed on, and no word of
    a bug is said."""
    calls, environment = scheduler(tmp_path, answer)
    with beside(job, tmp_path, *QUICK, "--", *UNTIL_TOLD, env=environment) as watch:
        wait_for(calls.exists, "a question to Slurm")
        (tmp_path / "end").touch()
        assert watch.wait() == 7
        assert "rankdbg itself failed" not in watch.said
        assert "Error:" not in watch.said


def test_output_that_is_no_list_of_jobs(tmp_path: Path) -> None:
    """It is quoted in one sentence, with what to look at."""
    _, environment = scheduler(tmp_path, "echo '{{{nonsense'")
    result = rankdbg("ps", "-t", "slurm:4711", env={**os.environ, **environment})
    assert result.returncode == 2
    first, quoted, hint = result.stderr.splitlines()
    assert first == "error: invalid output of squeue: not in the format that was requested"
    assert "'{{{nonsense'" in quoted and "type -a squeue" in hint


def test_watching_process_is_killed(job: Job, tmp_path: Path) -> None:
    """That is said, another one takes its place, and the command ends as it would have."""
    with beside(job, tmp_path, *QUICK, "--", *UNTIL_TOLD) as watch:
        first = watch.watching_process()
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: [*{*watch.processes("watch.beside")} - {first}], "another one")
        assert "has ended (signal 9); the command keeps running" in watch.said
        (tmp_path / "end").touch()
        assert watch.wait() == 7


def test_hang_is_found_after_the_watching_process_was_killed(job: Job, tmp_path: Path) -> None:
    """Its successor knows all that it needs, a rule file that has become unreadable aside."""
    rules = tmp_path / "rules.toml"
    rules.write_text("")
    hang = (sys.executable, WATCHED, "hang")
    options = (*QUICK, "--hang-after", "4", "--abort", "--rules", rules)
    with beside(job, tmp_path, *options, "--", *hang) as watch:
        first = watch.watching_process()
        rules.write_text("[[nonsense")
        os.kill(first, signal.SIGKILL)
        assert watch.wait() == 86
        assert "watching with rankdbg's own rules" in watch.said
        assert json.loads((tmp_path / "backtraces/report.json").read_text())["stuck"] is True


def test_node_process_is_killed(job: Job, tmp_path: Path) -> None:
    """It is started again, and a hang is found all the same."""
    hang = (sys.executable, WATCHED, "hang")
    with beside(job, tmp_path, *QUICK, "--hang-after", "4", "--abort", "--", *hang) as watch:
        watch.watching_process()
        for pid in watch.processes("rankdbg.node"):
            os.kill(pid, signal.SIGKILL)
        assert watch.wait() == 86


def test_disk_is_full(job: Job, tmp_path: Path) -> None:
    """The hang is said and the job is ended as asked for, though the evidence does not fit."""
    hang = [sys.executable, WATCHED, "hang"]
    words = [sys.executable, "-m", "rankdbg", "watch", *QUICK, "--abort", "--job", job.name, "--"]
    full = (
        "mkdir backtraces && mount -t tmpfs -o size=64k none backtraces && "
        'head -c 57344 /dev/zero > backtraces/filled && exec "$@"'
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", full, "sh", *words, *hang], env=job.environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=PATIENCE,
        check=False,
    )  # fmt: skip
    assert done.returncode == 86, done.stderr
    assert "some of it could not be saved" in done.stderr
    assert "The job is stuck" in done.stderr


@pytest.mark.parametrize(
    "stderr", chiefly(["2>&-", "2>unread"], ["2>&-", "2>/dev/full", "2>unread", "0<&- 1>&- 2>&-"])
)
def test_stderr_takes_nothing(job: Job, tmp_path: Path, stderr: str) -> None:
    """Closed, full, or a pipe that is full and not read: the command's status is passed on, and so
    is its hang."""
    os.mkfifo(tmp_path / "unread")
    unread = os.open(tmp_path / "unread", os.O_RDWR | os.O_NONBLOCK)
    try:
        while select.select([], [unread], [], 0)[1]:
            os.write(unread, b"x" * 512)
    except BlockingIOError:
        pass
    watch = f"{sys.executable} -m rankdbg watch --job {job.name} {' '.join(QUICK)}"
    for command, status in (("sh -c 'exit 7'", 7), (f"{sys.executable} {WATCHED} hang", 86)):
        # The greeting of the command itself would wait for somebody to read it.
        script = f"exec {watch} --abort -- {command} {stderr.replace('2>unread', '2<>unread')}"
        if "unread" in stderr:
            script = f"exec 3<>unread; {watch} --abort -- {command} 2>&3"
            os.set_blocking(unread, True)
            os.read(unread, 8192)  # room for the greeting, and for little else
        done = subprocess.run(
            ["sh", "-c", script], env=job.environment, cwd=tmp_path, timeout=PATIENCE, check=False
        )
        assert done.returncode == status
    os.close(unread)


@pytest.mark.extra
@pytest.mark.slow
def test_told_in_vain(job: Job, tmp_path: Path) -> None:
    """A webhook that never answers and a command of notify that never ends are given up, and the
    job is ended as asked for."""
    hang = (sys.executable, WATCHED, "hang")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        hook = f"http://127.0.0.1:{mute.getsockname()[1]}/"
        options = ("--webhook", hook, "--notify", "sleep 1000", "--abort")
        with beside(job, tmp_path, *QUICK, *options, "--", *hang) as watch:
            assert watch.wait() == 86
            assert "the webhook did not accept the report" in watch.said
            assert "the --notify command failed" in watch.said
            wait_for(lambda: not watch.processes("sleep"), "the --notify command has ended")


def test_watch_itself_is_killed(job: Job, tmp_path: Path) -> None:
    """The command lives on and ends by itself; nothing that has watched it is left."""
    command = ("sh", "-c", "until [ -e end ]; do sleep 0.05; done; touch ended")
    with beside(job, tmp_path, *QUICK, "--", *command) as watch:
        watch.watching_process()
        watch.process.kill()
        wait_for(lambda: not watch.processes("rankdbg"), "no process of rankdbg is left")
        (tmp_path / "end").touch()
        watch.wait_for_file("ended")


@pytest.mark.parametrize(
    ("script", "status"), [("exit 3", 3), ("kill -9 $$", 137), ("kill $$", 143)]
)
def test_status(job: Job, tmp_path: Path, script: str, status: int) -> None:
    """The command's own; of one that a signal has ended 128 and the signal, as shells have it."""
    assert job.cli("watch", *QUICK, "--", "sh", "-c", script, cwd=tmp_path).returncode == status


def test_mistakes_are_said_before_the_command_starts(job: Job, tmp_path: Path) -> None:
    """With status 2, one sentence, and nothing started."""
    for words, complaint in (
        (("--grace", "x", "--", "touch", "started"), "expected a number of seconds"),
        (("--rules", "none.toml", "--", "touch", "started"), "none.toml"),
        (
            ("--output-dir", "/proc/1/x", "--", "touch", "started"),
            "cannot write reports to /proc/1/x",
        ),
        (("--", "no-such-command"), "no such command: no-such-command"),
    ):
        done = job.cli("watch", *words, cwd=tmp_path)
        assert (done.returncode, complaint in done.stderr) == (2, True), done.stderr
    impatient = job.cli(
        "watch", "--", "touch", "started", cwd=tmp_path, env={"RANKDBG_PATIENCE": "x"}
    )
    assert (impatient.returncode, "RANKDBG_PATIENCE=x" in impatient.stderr) == (2, True)
    assert not (tmp_path / "started").exists()


def test_modules_beside_the_command(job: Job, tmp_path: Path) -> None:
    """A `json.py` in the current directory is not the one that watching needs."""
    (tmp_path / "json.py").write_text("raise RuntimeError('not this one')\n")
    (tmp_path / "signal.py").write_text("raise RuntimeError('not this one')\n")
    program = Path(sys.executable).with_name("rankdbg")
    words = ["watch", "--job", job.name, *QUICK, "--", *UNTIL_TOLD]
    with open(tmp_path / "said", "wb") as said:
        process = subprocess.Popen(
            [program, *words], env=job.environment, cwd=tmp_path, stderr=said
        )
    wait_for(lambda: _children(process.pid, "rankdbg.node"), "it is watched")
    (tmp_path / "end").touch()
    assert process.wait(PATIENCE) == 7
    assert "not this one" not in (tmp_path / "said").read_text()


def _children(pid: int, word: str) -> list[int]:
    """Of the processes below that one those with this word."""
    found, below = [], [pid]
    for parent in below:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            for task in os.listdir(f"/proc/{parent}/task"):
                children = Path(f"/proc/{parent}/task/{task}/children").read_text()
                below += map(int, children.split())
    for each in below[1:]:
        try:
            if word.encode() in Path(f"/proc/{each}/cmdline").read_bytes():
                found.append(each)
        except OSError:
            continue
    return found


# --- signals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", chiefly(["SIGUSR1", "SIGTERM"], ["SIGUSR1", "SIGUSR2", "SIGTERM"]))
def test_signal_is_passed_on_when_evidence_is_there(job: Job, tmp_path: Path, name: str) -> None:
    """What can be seen is collected first, with the reason; a job that is well is not accused."""
    with signalled(job, tmp_path, "--grace", "30") as watch:
        watch.wait_for_file("ready")
        watch.watching_process()
        job.wait_for(lambda ranks: bool(ranks))
        watch.process.send_signal(signal.Signals[name])
        assert watch.wait_for_file(f"got-{name}") == "collected"
        report = json.loads((tmp_path / "backtraces/report.json").read_text())
        assert report["collected"].startswith(f"{name} from ")
        assert report["stuck"] is False
        assert [*(tmp_path / "backtraces").glob("stacks_*.txt")]
        if name != "SIGTERM":
            watch.process.send_signal(signal.SIGTERM)
        assert watch.wait() == 5
        assert (tmp_path / "backtraces/snapshot/snapshot.json").exists()


def test_signal_between_the_first_look_and_the_next(job: Job, tmp_path: Path) -> None:
    """A watch that has seen no rank yet looks for them before it passes the signal on."""
    settings = WatchSettings(output_dir=str(tmp_path / "evidence"), look_every=3600.0)
    collected: list[bool] = []
    report = tmp_path / "evidence/report.json"
    with job.session() as session:
        said: list[str] = []
        watcher = Watcher(
            Reaching(lambda: session, session), settings, said.append, job.name, ReportsOfVerdicts()
        )
        watcher.run(lambda seconds: True)  # one look
        job.start_ranks("waits")
        job.wait_at("waits")
        watcher.collect_at_once("SIGUSR1", 30.0, lambda: collected.append(report.exists()))
    assert collected == [True], said


def test_signal_does_not_wait_for_a_watching_process_that_is_stuck(
    job: Job, tmp_path: Path
) -> None:
    """It passes after --grace seconds, and no matter what it ends the command as it would have."""
    with signalled(job, tmp_path, "--grace", "0.5", limit=SOON) as watch:
        watch.wait_for_file("ready")
        os.kill(watch.watching_process(), signal.SIGSTOP)
        watch.process.send_signal(signal.SIGTERM)
        assert watch.wait_for_file("got-SIGTERM") == "not collected"
        assert watch.wait() == 5


def test_second_signal_passes_at_once(job: Job, tmp_path: Path) -> None:
    """Who sends another one means it: both reach the command, without the wait."""
    with signalled(job, tmp_path, "--grace", "3600", limit=SOON) as watch:
        watch.wait_for_file("ready")
        os.kill(watch.watching_process(), signal.SIGSTOP)
        watch.process.send_signal(signal.SIGUSR1)
        watch.process.send_signal(signal.SIGTERM)
        assert watch.wait_for_file("got-SIGUSR1") == "not collected"
        assert watch.wait() == 5


def test_signal_to_everything_reaches_the_command_once(job: Job, tmp_path: Path) -> None:
    """A scheduler sends it to all processes itself: a second one would end many programs at once."""
    program = tmp_path / "counts.py"
    program.write_text(
        "import signal, sys, time\n"
        "got = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: got.append(1))\n"
        "signal.signal(signal.SIGUSR2, lambda *_: sys.exit(10 + len(got)))\n"
        "open('ready', 'w').close()\n"
        "while True: time.sleep(0.01)\n"
    )
    options = (*QUICK, "--grace", "30")
    with beside(job, tmp_path, *options, "--", sys.executable, program) as watch:
        watch.wait_for_file("ready")
        beside_it = watch.watching_process()
        (command,) = watch.processes("counts.py", sys.executable)[-1:]
        job.wait_for(lambda ranks: bool(ranks))
        for pid in (command, beside_it, watch.process.pid):
            os.kill(pid, signal.SIGTERM)
        watch.wait_until_said("SIGTERM from")
        watch.process.send_signal(signal.SIGUSR2)
        assert watch.wait() == 11


def test_stopped_ranks_are_collected(job: Job, tmp_path: Path) -> None:
    """Ranks that cannot answer cost no more than the grace: the signal passes on."""
    with signalled(job, tmp_path, "--grace", "2") as watch:
        watch.wait_for_file("ready")
        watch.watching_process()
        ranks = job.wait_for(lambda ranks: bool(ranks))
        os.kill(ranks[0].pid, signal.SIGSTOP)
        watch.process.send_signal(signal.SIGTERM)
        wait_for((tmp_path / "backtraces/report.txt").exists, "a collection has begun")
        watch.wait_until_said("SIGTERM from")
        os.kill(ranks[0].pid, signal.SIGCONT)
        assert watch.wait() == 5


def test_time_limit(job: Job, tmp_path: Path) -> None:
    """Shortly before the scheduler ends the job, and once; a job that is well is not accused."""
    end = {"SLURM_JOB_END_TIME": str(int(time.time()) + 8)}
    options = (*QUICK, "--before-end", "60", "-t", "local")
    command = (sys.executable, WATCHED, "handle-signals")
    with beside(job, tmp_path, *options, "--", *command, env=end) as watch:
        watch.wait_until_said("before the time limit: ")
        report = json.loads((tmp_path / "backtraces/report.json").read_text())
        assert (report["stuck"], report["collected"][-22:]) == (False, " before the time limit")
        watch.process.send_signal(signal.SIGTERM)
        assert watch.wait() == 5
        assert watch.said.count("before the time limit: ") == 1


def test_nohup(job: Job, tmp_path: Path) -> None:
    """A signal that is to be ignored is, by the command as well."""
    words = [sys.executable, "-m", "rankdbg", "watch", "--job", job.name, *QUICK, "--", *UNTIL_TOLD]
    process = subprocess.Popen(["nohup", *words], env=job.environment, cwd=tmp_path)
    wait_for(lambda: _children(process.pid, "rankdbg.node"), "it is watched")
    process.send_signal(signal.SIGHUP)
    (tmp_path / "end").touch()
    assert process.wait(PATIENCE) == 7


# --- a terminal ---------------------------------------------------------------------------------


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, job: Job, place: Path) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(place)
            environment = {**job.environment, "PS1": "", "TERM": "dumb", "HISTFILE": ""}
            os.execvpe("bash", ["bash", "--norc", "--noediting", "-i"], environment)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait_for(self, text: str) -> None:
        """What comes after all that was waited for before."""

        def arrived() -> bool:
            while select.select([self._terminal], [], [], 0)[0]:
                self._seen += os.read(self._terminal, 4096).decode()
            return text in self._seen

        wait_for(arrived, lambda: f"{text!r} in {self._seen!r}")
        self._seen = self._seen.partition(text)[2]

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)


@pytest.fixture
def shell(job: Job, tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(job, tmp_path)
    yield shell
    shell.end()


def test_command_on_a_terminal(shell: Shell, job: Job) -> None:
    """It reads from the terminal, ^Z stops it and gives the shell back, `fg` goes on, ^C ends it."""
    watch = f"{sys.executable} -m rankdbg watch --job {job.name}"
    shell.type(f"{watch} -- cat\n")
    shell.wait_for("look at it with")
    shell.type("first line\n")
    shell.wait_for("first line\r\nfirst line\r\n")  # typed, and said by cat
    shell.type("\x1a")
    shell.wait_for("Stopped")
    shell.type("echo in $((40 + 2))\n")
    shell.wait_for("in 42\r\n")
    shell.type("fg; echo then $?.\n")
    shell.wait_for("-- cat")
    shell.type("second line\n")
    shell.wait_for("second line\r\nsecond line\r\n")
    shell.type("\x03")
    shell.wait_for("then 130.")


def test_pipeline_on_a_terminal(shell: Shell, job: Job) -> None:
    """Of a pipeline the terminal stays with the shell's group; ^C reaches the command."""
    watch = f"{sys.executable} -m rankdbg watch --job {job.name}"
    program = f"{sys.executable} {PROGRAMS / 'watched.py'} go-on"
    shell.type(f"{watch} -- {program} | cat\n")
    shell.wait_for("fifty steps")
    shell.type("\x03")
    shell.wait_for("KeyboardInterrupt")
