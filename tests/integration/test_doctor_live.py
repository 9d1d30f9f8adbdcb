"""What the logs of a job say that runs here: which files these are, and what changes in them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job, command, rankdbg
from waiting import PATIENCE, wait_for

PROGRAM = PROGRAMS / "logs_job.py"
LAUNCH = [sys.executable, PROGRAMS / "launch.py"]
OOM = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
STEP = "[rank0]: [titan] %T,000 - root - INFO - step:  1  loss:  8.1  tps: 9  mfu: 1.00%"


def without_kernel(said: Any) -> Any:
    """Other tests that run on this machine have processes killed, and its kernel tells of it."""
    own = [f for f in said.get("failures", ()) if "kernel log" not in f["first"]["file"]]
    files = [file for file in said.get("files", ()) if "kernel log" not in file["path"]]
    return {**said, "failures": own, "files": files}


class LoggingJob:
    """Two ranks that log what they are told."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self.folder = folder
        self.log = folder / "train.log"
        self.talk = folder / "talk"
        self.talk.mkdir()

    def start(self, *command: object, shell: str = "", agent: bool = False) -> Any:
        words = [*command, PROGRAM, self.talk]
        if shell:
            words = ["sh", "-c", f"{' '.join(map(str, words))} {shell}"]
        with self.log.open("ab") as output:
            streams = {"stdout": output, "stderr": output}
            if shell:
                streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            return self.job.start(*words, agent=agent, cwd=self.folder, **streams)

    def tell(self, rank: int, *lines: str) -> None:
        with (self.talk / f"{rank}.txt").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def doctor(self, *words: object, verb: str = "doctor") -> Any:
        result = self.job.cli(verb, "--json", *words)
        assert result.returncode in (0, 1), result.stderr
        return without_kernel(json.loads(result.stdout))

    def until(
        self, look: Callable[[Any], bool], verb: str = "doctor", patience: float = PATIENCE
    ) -> Any:
        """What doctor says as soon as it is as wanted."""

        def said() -> Any:
            try:
                document = self.doctor(verb=verb)
            except AssertionError:  # no rank has begun yet
                return None
            return document if look(document) else None

        return wait_for(said, lambda: self.job.cli(verb).stdout, patience)


@pytest.fixture
def logging_job(job: Job, tmp_path: Path) -> LoggingJob:
    return LoggingJob(job, tmp_path)


def diagnosis_of(job: Job) -> tuple[Any, int]:
    """What doctor says, and its exit status."""
    result = job.cli("doctor", "--json")
    assert result.returncode in (0, 1), result.stderr
    return json.loads(result.stdout), result.returncode


def test_hang_is_trouble(job: Job, tmp_path: Path) -> None:
    """Exit status 1 without a failure in the logs."""
    with (tmp_path / "log").open("w") as log:
        job.start_ranks("waits", "waits_elsewhere", stdout=log)
    job.wait_at("waits", "waits_elsewhere")
    said, status = diagnosis_of(job)
    assert (said["hang"]["by_user"], status) == (False, 1)


def test_stop_of_the_users_own_is_no_trouble(job: Job, tmp_path: Path) -> None:
    """A rank at a breakpoint does not change the exit status."""
    with (tmp_path / "log").open("w") as log:
        job.start(*LAUNCH, 1, PROGRAMS / "stops.py", "steps", stdout=log)
    job.wait_for(lambda ranks: [rank.state for rank in ranks] == ["stopped"])
    said, status = diagnosis_of(job)
    assert (said["hang"]["cause"], said["hang"]["by_user"]) == ("at-breakpoint", True)
    # The kernel may tell of other tests' processes.
    assert status == bool(said["failures"]) and not without_kernel(said)["failures"]


def in_mesh(count: int) -> Callable[[Any], bool]:
    return lambda said: len(said["phases"]) == count and said["cluster"]["ranks"] == 2


@pytest.mark.extra
def test_a_file_that_all_ranks_write(logging_job: LoggingJob) -> None:
    """It is found by who holds it open; a line with a rank's prefix is that rank's."""
    logging_job.start(*LAUNCH, 2)
    said = logging_job.until(in_mesh(1))
    (file,) = said["files"]
    assert (file["path"], file["kind"], file["ranks"]) == (str(logging_job.log), "open", "0-1")
    assert said["cluster"]["running"]
    assert said["phases"][0]["silent_seconds"] < 60
    logging_job.tell(1, OOM)
    said = logging_job.until(lambda said: bool(said["failures"]))
    assert (said["failures"][0]["mode"], said["failures"][0]["ranks"]) == ("cuda_oom", "1")
    text = logging_job.job.cli("doctor")
    assert text.returncode == 1
    assert "2 of 2 ranks run" in text.stdout
    assert max(map(len, text.stdout.splitlines())) <= 80


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs openmpi-bin")
@pytest.mark.parametrize(
    ("rank", "file"),
    [('sh -c \'exec "$0" "$@" 2>&1\'', ">mpi.log 2>/dev/null"), ("", "2>mpi.log >/dev/null")],
    ids=["pty", "pipe"],
)
def test_output_through_mpirun(logging_job: LoggingJob, rank: str, file: str) -> None:
    """mpirun reads its ranks' stdout from ptys, their stderr from pipes, and writes the file; a line
    that it has tagged is that rank's, also where the rank does not say so itself."""
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--tag-output", "-n", "2"]
    logging_job.start(*mpirun, rank, sys.executable, shell=file)
    said = logging_job.until(in_mesh(2))
    log = str(logging_job.folder / "mpi.log")
    assert [(file["path"], file["ranks"]) for file in said["files"]] == [(log, "0-1")]
    logging_job.tell(1, OOM.removeprefix("[rank1]: "))
    said = logging_job.until(lambda said: bool(said["failures"]))
    assert (said["failures"][0]["mode"], said["failures"][0]["ranks"]) == ("cuda_oom", "1")
    shown = logging_job.job.cli("logs", "1").stdout
    assert "OutOfMemoryError" in shown
    assert "<std" not in shown


def test_output_into_tee(logging_job: LoggingJob) -> None:
    """The file of the `tee` that reads what the ranks write."""
    logging_job.start(*LAUNCH, 2, shell="2>&1 | tee tee.log")
    said = logging_job.until(in_mesh(1))
    assert [file["path"] for file in said["files"]] == [str(logging_job.folder / "tee.log")]


@pytest.mark.extra
@pytest.mark.slow
def test_torchrun_with_a_log_directory(
    logging_job: LoggingJob, follow: Callable[..., Follower]
) -> None:
    """Every rank's own file is that rank's; who failed first is named, not who was torn down."""
    logs = logging_job.folder / "logs"
    torchrun = Path(sys.executable).with_name("torchrun")
    options = ("--nproc-per-node=2", "--master-port=0", f"--log-dir={logs}", "--redirects=3")
    logging_job.start(torchrun, *options, "--rdzv-endpoint=localhost:0", "--rdzv-backend=c10d")
    said = logging_job.until(
        lambda said: {p["rank"] for p in said["phases"]} >= {0, 1},
    )
    kinds = {file["ranks"]: file["kind"] for file in said["files"] if file["ranks"]}
    assert kinds == {"0": "torchrun", "1": "torchrun"}
    follower = follow("--job", logging_job.job.name, env=logging_job.job.environment)
    follower.wait_for(event="job")
    logging_job.tell(1, "!raise")
    failure = follower.wait_for(event="failure")
    assert (failure["mode"], failure["ranks"]) == ("python_error", "1")
    after = rankdbg("doctor", logs, "--json")
    first = json.loads(after.stdout)["failures"][0]
    assert (first["mode"], first["ranks"]) == ("python_error", "1")


def test_torchrun_that_prints_what_its_ranks_write(logging_job: LoggingJob) -> None:
    """logs shows a line once, as its rank has written it, while the job runs and after its death."""
    torchrun = Path(sys.executable).with_name("torchrun")
    options = (
        "--nproc-per-node=2",
        "--standalone",
        "--tee=3",
        "--log-dir=logs",
        "--max-restarts=0",
    )
    process = logging_job.start(torchrun, *options, agent=True)
    logging_job.tell(1, "no shard in sight")
    wait_for(lambda: "[default1]:no shard in sight" in logging_job.log.read_text())

    def shown(words: str) -> list[str]:
        """The ranks of each line with these words."""
        lines = logging_job.doctor(verb="logs")["lines"]
        return [line["ranks"] for line in lines if words in line["text"]]

    assert shown("no shard in sight") == ["1"]
    logging_job.tell(1, "!raise")
    process.wait(PATIENCE)
    assert shown("shard 1 is damaged") == ["1"]
    assert shown("Root Cause") == [""]


def test_lines_of_an_earlier_run(logging_job: LoggingJob) -> None:
    """A log that is appended to holds failures of other runs: they are not this one's."""
    old = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - 3600))
    logging_job.log.write_text(f"{old} {OOM}\n")
    logging_job.start(*LAUNCH, 2)
    assert logging_job.until(in_mesh(1))["failures"] == []


def test_silence_is_measured_by_the_clock(logging_job: LoggingJob, tmp_path: Path) -> None:
    """While the job runs, it is what has passed since the last line, not between lines."""
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[phase]]\nstack = "mine"\nphase = "warm-up"\nquiet = 0.2\nnote = "it warms up"\n'
        'match = ["warming up"]\n'
    )
    logging_job.start(*LAUNCH, 2)
    logging_job.until(in_mesh(1))
    logging_job.tell(0, "%T [rank0]: warming up")
    stalled = wait_for(
        lambda: [p for p in logging_job.doctor("--rules", rules)["phases"] if p["stalled"]]
    )
    assert [(p["rank"], p["phase"]) for p in stalled] == [(0, "warm-up")]
    text = logging_job.job.cli("phases", "--rules", rules)
    assert text.returncode == 1
    assert "it warms up" in text.stdout


def test_a_file_that_was_deleted(logging_job: LoggingJob) -> None:
    """It is still written, and can still be read."""
    logging_job.start(*LAUNCH, 2)
    logging_job.until(in_mesh(1))
    logging_job.log.unlink()
    logging_job.tell(1, OOM)
    said = logging_job.until(lambda said: bool(said["failures"]))
    assert said["failures"][0]["first"]["file"] == str(logging_job.log)


# --- --follow -------------------------------------------------------------------------------


class Follower:
    """A `rankdbg doctor --follow` whose events go into a file."""

    def __init__(self, output: Path, *words: object, **settings: Any) -> None:
        follow = command("doctor", "--follow", "--json", *words)
        self._output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(follow, stdout=file, **settings)

    def events(self) -> list[dict[str, Any]]:
        lines = self._output.read_text().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.endswith("\n")]
        return [event for event in events if "kernel log" not in str(event.get("lines"))]

    def wait_for(self, **wanted: object) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            fits = [e for e in self.events() if wanted.items() <= e.items()]
            return fits[0] if fits else None

        return wait_for(found, lambda: self.events())

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Callable[..., Follower]]:
    started: list[Follower] = []

    def start(*words: object, **settings: Any) -> Follower:
        started.append(Follower(tmp_path / "events.jsonl", *words, **settings))
        return started[-1]

    yield start
    for follower in started:
        follower.process.kill()
        follower.process.wait()


@pytest.mark.slow
def test_follow_a_job(logging_job: LoggingJob, follow: Callable[..., Follower]) -> None:
    """Phases and failures as they come, each once; it ends with the job."""
    logging_job.start(*LAUNCH, 2)
    logging_job.until(in_mesh(1))
    follower = follow("--job", logging_job.job.name, env=logging_job.job.environment)
    follower.wait_for(event="phase", phase="mesh")
    follower.wait_for(event="job")
    logging_job.tell(0, STEP)
    follower.wait_for(event="phase", phase="step", ranks="0")
    logging_job.tell(1, OOM)
    failure = follower.wait_for(event="failure")
    assert (failure["mode"], failure["ranks"], failure["role"]) == ("cuda_oom", "1", "root")
    logging_job.tell(1, OOM)
    for rank in (0, 1):
        logging_job.tell(rank, "!exit 1")
    assert follower.process.wait(PATIENCE) == 0
    kinds = [event["event"] for event in follower.events()]
    assert (kinds.count("failure"), kinds.count("job")) == (1, 2)


def test_follow_files(tmp_path: Path, follow: Callable[..., Follower]) -> None:
    """Through rotation and truncation, files that come later; Ctrl-C ends it with status 0, and
    what there was is kept."""
    log, kept = tmp_path / "logs" / "rank0.log", tmp_path / "kept"
    log.parent.mkdir()
    log.write_text("2026-11-15 10:00:00 Building 1-D device mesh with ['dp'], [2]\n")
    follower = follow(log.parent, "--save", kept)
    follower.wait_for(event="phase", phase="mesh", ranks="0")
    log.rename(log.with_name("rank0.log.1"))
    log.write_text("2026-11-15 10:00:05 RuntimeError: CUDA error: device-side assert triggered\n")
    first = follower.wait_for(event="failure")
    log.write_text(f"2026-11-15 10:00:09 {OOM}\n")
    follower.wait_for(event="failure", mode="cuda_oom")
    (log.parent / "rank2.log").write_text(OOM.replace("rank1", "rank2") + "\n")
    follower.wait_for(event="failure", ranks="2")
    assert follower.interrupt() == 0
    modes = [event["mode"] for event in follower.events() if event["event"] == "failure"]
    assert modes == [first["mode"], "cuda_oom", "cuda_oom"]
    report = json.loads((kept / "report.json").read_text())
    assert {failure["mode"] for failure in report["failures"]} == {first["mode"], "cuda_oom"}
    assert "cuda_oom" in (kept / "report.txt").read_text()
    assert "CUDA out of memory" in (kept / "evidence.txt").read_text()
    assert (kept / "evidence.txt").stat().st_mode & 0o077 == 0


def test_follow_as_text(tmp_path: Path) -> None:
    """A line for each change, with its time and rank."""
    log = tmp_path / "rank3.log"
    log.write_text(f"2026-11-15 10:00:05 {OOM.replace('rank1', 'rank3')}\n")
    command = [sys.executable, "-m", "rankdbg", "doctor", "--follow", tmp_path]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert line.startswith("10:00:05  failure   cuda_oom on rank 3")
    assert process.returncode == 0


# --- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["doctor", "phases"])
def test_no_job_and_no_logs(verb: str, tmp_path: Path) -> None:
    """One sentence, and what to do next."""
    places = {"RANKDBG_DIR": tmp_path, "TMPDIR": tmp_path, "RAY_TMPDIR": tmp_path}
    environment = {**os.environ, **{name: str(value) for name, value in places.items()}}
    result = rankdbg(verb, "--job", "nosuch", env=environment)
    assert result.returncode == 2
    assert "no job" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_report_that_cannot_be_kept(tmp_path: Path) -> None:
    """It is said, after it was shown."""
    (tmp_path / "a.log").write_text(OOM + "\n")
    result = rankdbg("doctor", tmp_path / "a.log", "--save", "/proc/no")
    assert (result.returncode, "cuda_oom" in result.stdout) == (2, True)
    assert "cannot save the report in /proc/no" in result.stderr
