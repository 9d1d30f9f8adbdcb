"""rankdbg collect: files of ranks come home, once each, whole, laid out by node."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job, command, rankdbg
from rankdbg.investigations.nodes.rank_files import NodeFile, place_of
from ssh_hosts import Hosts
from waiting import PATIENCE, wait_for

PROGRAM = PROGRAMS / "leaves_files.py"
REPORT = "trainer_3:7_0.nsys-rep"


class Leaving:
    """A job of one rank, and the directory into which its files are collected."""

    def __init__(self, job: Job, scratch: Path) -> None:
        self.job = job
        self.folder = scratch / "work"
        self.home = scratch / "home"
        self.log = self.folder / "train.log"
        environment = {
            "RANK": "0",
            "WORLD_SIZE": "1",
            "TORCH_FR_DUMP_TEMP_FILE": str(scratch / "work" / "dump_"),
        }
        self.process = job.start(sys.executable, PROGRAM, self.folder, env=environment)
        wait_for(lambda: self.log.exists() and self.log.read_text(), "its log")
        # As a while ago: what was just written does not rest.
        for file in self.folder.iterdir():
            if file.stat().st_mtime > 1e9:
                let_rest(file)

    def at_home(self, file: Path) -> Path:
        return self.home / os.uname().nodename / str(file).lstrip("/")

    def collect(self, *words: object) -> dict[str, Any]:
        """Name -> what became of it."""
        found = json.loads(self.job.cli("collect", "all", self.home, "--json", *words).stdout)
        return {Path(file["path"]).name: file for file in found["files"]}


@pytest.fixture
def leaving(job: Job, tmp_path: Path) -> Leaving:
    return Leaving(job, tmp_path)


def let_rest(file: Path) -> None:
    before = time.time() - 3
    os.utime(file, (before, before))


def states(files: dict[str, Any]) -> dict[str, str]:
    return {name: file["state"] for name, file in files.items()}


def test_once_each(leaving: Leaving) -> None:
    """All kinds, checked by digest; again nothing is fetched; a log that grew is appended to."""
    first = leaving.collect("--include", "*.md")
    core = next(name for name in first if name.startswith("core."))
    kinds = {name: file["kind"] for name, file in first.items()}
    assert kinds == {
        **{"train.log": "log", REPORT: "profile", "dump_0": "dump", core: "crash"},
        "notes.md": "included",
    }
    assert set(states(first).values()) == {"copied"}
    for file in first.values():
        there, here = Path(file["path"]), Path(file["to"])
        assert here == leaving.at_home(there)
        assert here.read_bytes() == there.read_bytes()
        assert file["sha256"] == hashlib.sha256(there.read_bytes()).hexdigest()
    with leaving.log.open("a") as log:
        log.write("step 2\n")
    again = leaving.collect()
    assert states(again) == {
        **dict.fromkeys([REPORT, "dump_0", core], "there"),
        "train.log": "appended",
    }
    assert (again["train.log"]["fetched"], again[REPORT]["fetched"]) == (len("step 2\n"), 0)
    assert leaving.at_home(leaving.log).read_text() == "step 1\nstep 2\n"
    told = leaving.job.cli("collect", "all", leaving.home)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == f"collected 0 files, 0 B, into {leaving.home}; 4 were there already\n"


def test_resumed(leaving: Leaving) -> None:
    """What was begun goes on where it ended, if it is the beginning of that file; a file that
    has become another is fetched anew."""
    report = leaving.folder / REPORT
    partial = leaving.at_home(report).with_name(f"{REPORT}.part")
    partial.parent.mkdir(parents=True)
    partial.write_bytes(report.read_bytes()[:800_000])
    assert leaving.collect()[REPORT]["fetched"] == report.stat().st_size - 800_000
    assert leaving.at_home(report).read_bytes() == report.read_bytes()
    partial.write_bytes(b"of another file")
    leaving.log.write_text("rotated\n")
    report.write_bytes(report.read_bytes()[:-9] + b"Changed!\n")
    let_rest(report)
    files = leaving.collect()
    assert states(files)[REPORT] == "copied"
    assert files[REPORT]["fetched"] == report.stat().st_size
    for file in (report, leaving.log):
        assert leaving.at_home(file).read_bytes() == file.read_bytes()
    assert list(leaving.home.rglob("*.part")) == []


def test_growing(leaving: Leaving) -> None:
    """A report that is being written is waited for, and then copied; one that does not come to
    rest is left, and named."""
    report, endless = leaving.folder / REPORT, leaving.folder / "endless.nsys-rep"
    endless.write_text("no end")
    for file, later in ((report, 0.5), (endless, 3600)):
        os.utime(file, (time.time() + later, time.time() + later))
    result = leaving.job.cli("collect", "all", leaving.home)
    assert result.returncode == 1
    left = "endless.nsys-rep  (it is still being written)\n  hint: --follow 30 waits for"
    assert left in result.stdout
    assert result.stdout.count("left: ") == 1
    assert leaving.at_home(report).read_bytes() == report.read_bytes()
    assert not leaving.at_home(endless).exists()


def test_followed_to_the_end(leaving: Leaving) -> None:
    """Also what a profiler writes when its rank has gone; then it ends."""
    late = leaving.folder / "late.nsys-rep"
    words = ["--job", leaving.job.name, "all", str(leaving.home), "--follow", "0.5"]
    process = subprocess.Popen(
        command("collect", *words),
        env=leaving.job.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(leaving.at_home(leaving.log).exists, "the first look")
    profiler = subprocess.Popen([_named_nsys(leaving.folder), "60"])
    leaving.process.send_signal(signal.SIGKILL)
    leaving.process.wait(PATIENCE)
    late.write_text("late")
    let_rest(late)
    wait_for(leaving.at_home(late).exists, "the late report")
    profiler.kill()
    profiler.wait(PATIENCE)
    output, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output + told
    assert output.startswith("collected 5 files, ")
    assert told.startswith("collected ")


class Following:
    """A collect that follows, and the process by which it looks at this machine."""

    def __init__(self, leaving: Leaving) -> None:
        words = ["--job", leaving.job.name, "all", str(leaving.home), "--follow", "0.2"]
        self.process = subprocess.Popen(
            command("collect", *words),
            env=leaving.job.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        assert self.process.stderr.readline().startswith("collected 4 files")

    def node(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(children.split()[0])


@pytest.fixture
def following(leaving: Leaving) -> Iterator[Following]:
    following = Following(leaving)
    yield following
    following.process.kill()
    following.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("hangs", [False, True])
def test_following_ends_when_it_is_told_to(
    following: Following, number: signal.Signals, hangs: bool
) -> None:
    """At once, also while a node does not answer; what is there is told."""
    if hangs:
        os.kill(following.node(), signal.SIGSTOP)
    following.process.send_signal(number)
    output, told = following.process.communicate(timeout=PATIENCE)
    assert output.startswith("collected 4 files, "), output + told
    assert "Traceback" not in told


def test_following_ends_when_the_node_is_gone(following: Following, leaving: Leaving) -> None:
    """It is reached again; when its job is over too, that is the end."""
    leaving.process.send_signal(signal.SIGKILL)
    os.kill(following.node(), signal.SIGKILL)
    output, told = following.process.communicate(timeout=PATIENCE)
    assert output.startswith("collected 4 files, "), output + told


@pytest.mark.slow
def test_following_ends_with_its_own_job(tmp_path: Path) -> None:
    """Not with one that comes to run meanwhile on the same machine."""
    if subprocess.run(["unshare", "--pid", "--fork", "true"], check=False).returncode:
        pytest.skip("needs the right to make namespaces")
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable]
    program = PROGRAMS / "follows_one_job.py"
    done = subprocess.run([*words, program, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("ended\n"), done.stdout + done.stderr


@pytest.mark.parametrize("name", ["..", ".", ".hidden", "-rf", "a/../../b", "x" * 250])
def test_a_node_by_an_odd_name(leaving: Leaving, tmp_path: Path, name: str) -> None:
    """Its files come to lie below the directory, in one of their own."""
    odd = NodeFile(name, "/../../etc/passwd", "log", 1, 1, 1, True)
    place = place_of(tmp_path / "home", odd)
    folder, *rest = place.relative_to(tmp_path / "home").parts
    assert (rest, folder[0] in ".-", "/" in folder) == (["etc", "passwd"], False, False)
    assert len(folder) <= 255
    if "/" in name:
        return  # of a cluster alone: ssh takes it for an option or a path
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    path = f"{ssh.parent}:{os.environ['PATH']}"
    before = {*tmp_path.iterdir()}
    result = leaving.job.cli(
        "collect", "-t", f"ssh:{name}", "all", leaving.home, env={"PATH": path}
    )
    if result.returncode:  # a name that no host can have is refused
        assert result.stderr.startswith("error: ")
    assert {*tmp_path.iterdir()} - before <= {leaving.home}


def _named_nsys(folder: Path) -> Path:
    """Something that is called so and takes its time."""
    program = folder.parent / "nsys"
    program.symlink_to(shutil.which("sleep") or "/bin/sleep")
    return program


def test_no_room(leaving: Leaving) -> None:
    """One sentence; what is there is whole, and with more room it goes on."""
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("needs the right to make namespaces")
    leaving.home.mkdir()
    words = command("collect", "--job", leaving.job.name, "all")
    collect = shlex.join([*words, str(leaving.home)])
    line = (
        f"mount -t tmpfs -o size=400k tmpfs {leaving.home} || exit 9; {collect}; echo status $?; "
        f"mount -o remount,size=4m {leaving.home}; {collect}; echo status $?; "
        f"cmp {leaving.folder / REPORT} {leaving.at_home(leaving.folder / REPORT)} && echo same"
    )
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", line],
        env=leaving.job.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert f"error: no space left in {leaving.home}: 1 files were not copied" in result.stderr
    assert "hint: free some space and run the same command again" in result.stderr
    assert "(No space left on device)\nstatus 2\n" in result.stdout
    assert result.stdout.endswith("status 0\nsame\n"), result.stdout


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["all", ""], "invalid destination '': not a directory"),
        (["all", __file__], f"invalid destination {__file__!r}: not a directory"),
        (["7", "home"], "no rank 7"),
        (["*policy*", "home"], "no role *policy*"),
        (
            ["all", "home", "--follow", "0"],
            "argument --follow: invalid time '0': expected a number of seconds above 0",
        ),
    ],
)
def test_bad_input(leaving: Leaving, tmp_path: Path, words: list[str], what: str) -> None:
    """Status 2, one sentence, and nothing is written."""
    result = leaving.job.cli("collect", *words, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {what}")
    assert "Traceback" not in result.stderr


def collected(home: Path, name: str) -> list[Path]:
    return [path.relative_to(home) for path in home.rglob(name)]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    scratch = tmp_path_factory.mktemp("hosts")
    with Hosts(scratch, "host-1", "host-2") as hosts:
        for rank, name in enumerate(hosts.names):
            hosts.start_rank(name, "leaving", rank, 2, PROGRAM, scratch / f"work-{rank}")
        for rank in range(2):
            log = scratch / f"work-{rank}" / "train.log"
            wait_for(lambda log=log: log.exists() and log.read_text(), "logs")
        yield hosts


@pytest.mark.slow
def test_two_hosts(hosts: Hosts, tmp_path: Path) -> None:
    """Each has its folder; a file that both see, on a shared disk, comes once, also if it came
    while only one of them could be asked; of a host that is gone, nothing is lost that is here,
    and it is named."""
    environment = hosts.environment()
    shared = hosts.scratch / "shared.txt"
    shared.write_text("shared")
    words = ("collect", "all", tmp_path, "--include", shared, "--json")

    def collect(target: str = hosts.target) -> Any:
        return rankdbg(*words, env={**environment, "RANKDBG_TARGET": target})

    wait_for(lambda: collect("ssh:host-2").returncode == 0, "the second one to rest")
    wait_for(lambda: collect().returncode == 0, "both to rest")
    for rank, name in enumerate(hosts.names):
        copied = tmp_path / name / str(hosts.scratch / f"work-{rank}" / "train.log").lstrip("/")
        assert copied.read_text() == "step 1\n"
    assert [path.parts[0] for path in collected(tmp_path, "shared.txt")] == ["host-2"]
    hosts.stop("host-2")
    result = collect()
    assert result.returncode == 1
    assert "host-2" in json.loads(result.stdout)["no_response_nodes"]
    assert (tmp_path / "host-2").is_dir()
