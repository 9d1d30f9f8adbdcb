"""`rankdbg watch` beside real jobs: it finds a hang by itself, keeps the evidence, tells."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job, command
from rankdbg.investigations.hangs.job_verdicts import JobVerdict
from rankdbg.investigations.watch.collections import Folders, collect, look_at
from rankdbg.verdicts.hangs.hang_rules import load_hang_rules
from tiers import chiefly
from waiting import PATIENCE, wait_for
from watching import QUICK, WATCHED, Watch


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(f"watched-{os.urandom(3).hex()}", tmp_path)
    yield job
    job.end()


def watch(job: Job, tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Beside two processes that hang, until they are ended."""
    command = [sys.executable, str(PROGRAMS / "launch.py"), "2", WATCHED, "hang"]
    return job.cli("watch", *QUICK, *options, "--", *command, cwd=tmp_path, timeout=PATIENCE)


def test_hang_is_found(job: Job, tmp_path: Path) -> None:
    """Nobody said when: it stood still, is looked at, and the job is ended as asked for."""
    result = watch(job, tmp_path, "--abort")
    assert result.returncode == 86, result.stderr
    assert "no progress for" in result.stderr
    report = json.loads((tmp_path / "backtraces/report.json").read_text())
    assert report["stuck"] is True
    assert report["culprit"] == "0-1"
    assert report["cause"] == "waits-for-lock"
    assert (
        "wait_for_a_lock_that_nobody_releases" in (tmp_path / "backtraces/report.txt").read_text()
    )
    page = tmp_path / "backtraces/report.html"
    assert '"culprits":"0-1"' in page.read_text() and page.stat().st_mode & 0o777 == 0o600


class ReportsWithoutPage:
    """Whose page fails for a reason that is nobody's mistake in using it."""

    def text(self, verdict: JobVerdict) -> str:
        return verdict.headline()

    def page(self, verdict: JobVerdict, target: str, time: str) -> str:
        raise TypeError("no such colour")


def test_a_page_that_fails(job: Job, tmp_path: Path) -> None:
    """The rest of the collection is there, and it is said what is not."""
    job.start_ranks("waits", "waits")
    job.wait_at("waits", "waits")
    folders = Folders(tmp_path / "kept", ReportsWithoutPage())
    with job.session() as session:
        judged = look_at(session, session.job(job.name), load_hang_rules())
        kept = collect(session, judged, folders, "asked", "none")
    assert kept.failure == "report.html: TypeError: no such colour"
    assert {path.name for path in kept.directory.iterdir()} >= {"report.txt", "snapshot"}
    assert not (kept.directory / "report.html").exists()


def test_stacks_of_each_process_are_kept(job: Job, tmp_path: Path) -> None:
    """As pyspy_HOST_PID.txt, with the rank inside; and a snapshot that can be asked again."""
    watch(job, tmp_path, "--abort", "--log-dir", "logs of tonight")
    place = tmp_path / "logs of tonight/backtraces"
    texts = [path.read_text() for path in sorted(place.glob("pyspy_*_*.txt"))]
    assert len(texts) == 2
    assert {text.split()[2] for text in texts} == {"0", "1"}
    assert all("wait_for_a_lock_that_nobody_releases" in text for text in texts)
    again = job.cli("why", "--json", "-t", f"snapshot:{place}/snapshot")
    assert json.loads(again.stdout)["culprit"] == "0-1", again.stderr


def test_exit_status_is_the_commands(job: Job, tmp_path: Path) -> None:
    """A job that does not hang ends as it always did."""
    command = [sys.executable, WATCHED, "fail"]
    result = job.cli("watch", *QUICK, "--", *command, cwd=tmp_path)
    assert result.returncode == 7
    assert not (tmp_path / "backtraces").exists()


def test_hang_is_told(job: Job, tmp_path: Path) -> None:
    """A command gets the report on its stdin and the culprit in its environment; a webhook the
    same as JSON."""
    got: list[Any] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        hook = f"http://127.0.0.1:{server.server_port}/"
        notify = 'echo "$RANKDBG_CULPRIT $RANKDBG_CAUSE" > told; cat > told.json'
        watch(job, tmp_path, "--abort", "--notify", notify, "--webhook", hook)
        server.shutdown()
    assert (tmp_path / "told").read_text() == "0-1 waits-for-lock\n"
    assert json.loads((tmp_path / "told.json").read_text())["culprit"] == "0-1"
    assert [document["cause"] for document in got] == ["waits-for-lock"]


def test_a_webhook_that_fails_is_said(job: Job, tmp_path: Path) -> None:
    """And the evidence is there nevertheless."""
    result = watch(
        job, tmp_path, "--abort", "--webhook", "http://127.0.0.1:9/", "--notify", "exit 3"
    )
    assert "the webhook did not accept the report" in result.stderr
    assert "ended with status 3" in result.stderr
    assert (tmp_path / "backtraces/report.json").exists()


def test_a_report_that_cannot_be_written(job: Job, tmp_path: Path) -> None:
    """Is said; somebody is told of the hang nevertheless, and the job ends as asked for."""
    program = f"touch kept && exec {sys.executable} {WATCHED} hang"  # where the folder would be
    result = job.cli(
        *("watch", *QUICK, "--abort", "--output-dir", "kept", "--notify", "cat > told.json"),
        *("--", "sh", "-c", program),
        cwd=tmp_path,
    )
    assert result.returncode == 86, result.stderr
    assert "some of it could not be saved: [Errno 17] File exists: 'kept'" in result.stderr
    assert json.loads((tmp_path / "told.json").read_text())["culprit"] == "0"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ("--webhook", "hooks.example.org"),
            "invalid webhook 'hooks.example.org': expected an http or https URL",
        ),
        (("--exit-status", "300"), "invalid exit status 300: expected a number from 1 to 255"),
        (("--output-dir", "/dev/null/reports"), "/dev/null is not a directory"),
    ],
)
def test_what_would_fail_only_at_night(
    job: Job, tmp_path: Path, options: tuple[str, ...], complaint: str
) -> None:
    """Is refused at once, and nothing is started."""
    result = job.cli("watch", *options, "--", "touch", "started", cwd=tmp_path)
    assert result.returncode == 2
    assert complaint in result.stderr, result.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.extra
def test_fixed_times_of_a_job_file(job: Job, tmp_path: Path) -> None:
    """wait_seconds collects when it is time, hang or not; other sections are left alone."""
    # Moments that are over before the job is found are one look: there are later ones.
    (tmp_path / "job.yaml").write_text(
        "name: bench\nmodel: {path: x}\nlog_dir: here\n"
        "debug:\n  enabled: true\n  wait_seconds: [1, 4, 15, 40]\n  look_every: 0.5\n  cuda: none\n"
    )
    words = ["watch", "--config", "job.yaml", "--job", job.name, "--", sys.executable, WATCHED]
    process = subprocess.Popen(
        command(*words, "go-on"),
        env=job.environment,
        cwd=tmp_path,
        start_new_session=True,
    )
    try:
        found = tmp_path / "here/backtraces"
        wait_for((found / "report.json").exists, "a collection")
        wait_for(lambda: any(found.glob("*/report.json")), "a second one")
        assert json.loads((found / "report.json").read_text())["stuck"] is False
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(PATIENCE)


def test_a_job_that_moves_is_left_alone(job: Job, tmp_path: Path) -> None:
    """Steps that are told count as progress; at its end watch ends too."""
    job.start(sys.executable, PROGRAMS / "launch.py", "2", WATCHED, "go-on")
    job.wait_for(lambda ranks: len([r for r in ranks if r.step is not None]) == 2)
    watching = subprocess.Popen(
        command("watch", "--job", job.name, *QUICK),
        env=job.environment,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stderr is not None
    assert "watching job" in watching.stderr.readline()
    steps = {r.process: r.step for r in job.ranks()}
    job.wait_for(lambda ranks: all((r.step or 0) > (steps[r.process] or 0) + 150 for r in ranks))
    job.end_ranks()
    assert watching.wait(PATIENCE) == 0
    assert "has ended" in watching.stderr.read()
    assert not (tmp_path / "backtraces").exists()


@pytest.mark.extra
def test_job_that_hangs_already(job: Job, tmp_path: Path) -> None:
    """It is said at the first look that it is stuck, and that nothing counts as a hang before
    --hang-after; SIGUSR1 collects without waiting for that."""
    start_hanging(job, tmp_path)
    options = ("--job", job.name, "--hang-after", "3600", "--look-every", "0.3", "--cuda", "none")
    with Watch(tmp_path, job.environment, *options) as watching:
        watching.wait_until_said("The job is stuck: no rank has made progress for")
        assert "culprit: 0-1 (waits-for-lock); reported as a hang in 1.0 h" in watching.said
        assert not (tmp_path / "backtraces").exists()
        watching.process.send_signal(signal.SIGUSR1)
        report = json.loads(watching.wait_for_file("backtraces/report.json"))
        assert (report["collected"], report["stuck"]) == ("SIGUSR1", True)
        watching.process.send_signal(signal.SIGTERM)
        assert watching.wait() == 0
    assert len(job.ranks()) == 2  # a watch that ends leaves the job alone


@pytest.mark.extra
def test_hang_that_lasts(job: Job, tmp_path: Path) -> None:
    """A job that was never seen to move is told when it has stood for --hang-after."""
    start_hanging(job, tmp_path)
    with Watch(tmp_path, job.environment, "--job", job.name, *QUICK) as watching:
        report = json.loads(watching.wait_for_file("backtraces/report.json"))
        assert report["stuck"] is True
        assert "no progress for" in report["collected"]


def test_hang_with_heartbeats(job: Job, tmp_path: Path) -> None:
    """One that wakes up ten times a second, and prints as often, does not move."""
    launcher, program = PROGRAMS / "launch.py", PROGRAMS / "waits.py"
    output = (tmp_path / "output").open("w")
    job.start(sys.executable, launcher, "2", program, "heartbeats", stdout=output)
    wait_for(lambda: len(job.ranks()) == 2, "two ranks")
    with Watch(tmp_path, job.environment, "--job", job.name, *QUICK) as watching:
        report = json.loads(watching.wait_for_file("backtraces/report.json"))
        assert (report["stuck"], report["culprit"]) == (True, "1")


@pytest.mark.extra
def test_hang_of_known_age(job: Job, tmp_path: Path) -> None:
    """Where flight recorders know that ranks have waited for longer than --hang-after, it is a hang
    at the first look."""
    program = PROGRAMS / "hangs/missing_from_collective.py"
    job.start_torch(4, program)

    def waited() -> bool:
        told = job.cli("why", "--json")
        return told.returncode in (0, 1) and (json.loads(told.stdout)["waited"] or 0) > 3

    wait_for(waited, "they have waited")
    options = ("--job", job.name, "--hang-after", "3", "--look-every", "3600", "--cuda", "none")
    with Watch(tmp_path, job.environment, *options) as watching:
        report = json.loads(watching.wait_for_file("backtraces/report.json"))
        assert report["collected"] == "the job was stuck when watching began"
        assert report["stuck"] is True


WELL = ["behave.py", "hangs/idle_http_server.py"]


@pytest.mark.parametrize("program", chiefly(WELL[1:], WELL))
def test_job_without_a_hang_is_not_accused(job: Job, tmp_path: Path, program: str) -> None:
    """One that computes, and one that waits for work, at the first look and later."""
    words = (sys.executable, PROGRAMS / "launch.py", "2", PROGRAMS / program)
    job.start(*words, "loops", "loops")
    job.wait_for(lambda ranks: len(ranks) == 2 and all(rank.where for rank in ranks))
    with Watch(tmp_path, job.environment, "--job", job.name, *QUICK, "--at", "3") as watching:
        report = json.loads(watching.wait_for_file("backtraces/report.json"))
        assert report["stuck"] is False
        assert "stuck" not in watching.said.replace("but the job is not stuck", "")


def start_hanging(job: Job, tmp_path: Path) -> None:
    job.start(sys.executable, PROGRAMS / "launch.py", "2", WATCHED, "hang", cwd=tmp_path)
    hangs = "wait_for_a_lock_that_nobody_releases"
    job.wait_at(hangs, hangs)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("debug: {enabled: true, wait_secs: 5}", "debug.wait_secs: unknown setting"),
        ("debug: {enabled: true, wait_seconds: soon}", "must be a number of seconds, not 'soon'"),
        ("debug: {enabled: maybe}", "must be true or false"),
        ("debug: [1, 2]", "must be a section"),
        ("name: x", "has no section `debug:`"),
        ("debug: {enabled: true", "not YAML"),
        ("- 1", "has no sections"),
        ("debug: {enabled: true, cuda: some}", "must be one of suspects, all, none"),
    ],
)
def test_bad_job_files(job: Job, tmp_path: Path, text: str, complaint: str) -> None:
    """One sentence with the place, before anything is started."""
    (tmp_path / "job.yaml").write_text(text)
    result = job.cli("watch", "--config", "job.yaml", "--", "touch", "started", cwd=tmp_path)
    assert result.returncode == 2
    assert complaint in result.stderr, result.stderr
    assert not (tmp_path / "started").exists()


def test_switched_off(job: Job, tmp_path: Path) -> None:
    """A section without `enabled: true` runs the command and watches nothing."""
    (tmp_path / "job.yaml").write_text("debug:\n  wait_seconds: 0\n")
    result = job.cli("watch", "--config", "job.yaml", "--", "sh", "-c", "exit 4", cwd=tmp_path)
    assert result.returncode == 4
    assert not (tmp_path / "backtraces").exists()


def test_abort_needs_a_command(job: Job, tmp_path: Path) -> None:
    """What rankdbg watch has not started it does not end."""
    result = job.cli("watch", "--abort")
    assert result.returncode == 2
    assert "rankdbg watch -- COMMAND" in result.stderr
