"""rankdbg profile on real ranks: from outside and from inside, and whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, Job, command
from rankdbg.frontends import cli
from rankdbg.investigations.profiles import profile_files
from rankdbg.node.machine.processes import read_stat, read_thread
from rankdbg.types import Rank
from waiting import PATIENCE, wait_for


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """Four ranks that have no agent."""
    job = Job(f"profile-{os.urandom(3).hex()}", tmp_path_factory.mktemp("plain"))
    job.start_ranks("loops", "waits", "with_threads", "holds_gil", agent=False)

    def are_there(ranks: list[Rank]) -> bool:
        functions = {rank.number: rank.where.function for rank in ranks if rank.where}
        others = {1: "waits", 2: "with_threads", 3: "holds_gil"}
        return functions.pop(0, "") in ("loops", "one", "other") and functions == others

    job.wait_for(are_there)
    yield job
    job.end()


def profile(job: Job, folder: Path, *words: object, **settings: Any) -> Any:
    options = ("--json", "--seconds", "2", "--output", folder)
    result = job.cli("profile", *options, *words, **settings)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def begin(
    job: Job, folder: Path, *words: object, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """A profile that is under way, until somebody ends it."""
    options = ["profile", "--job", job.name, "--json", "--seconds", "600", "--output", str(folder)]
    started = subprocess.Popen(
        command(*options, *map(str, words)),
        env={**job.environment, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stderr is not None
    assert any(line.startswith("recording for ") for line in started.stderr)
    return started


def profile_samples(job: Job, folder: Path, *words: object) -> Any:
    """Of these ranks, or all: some dozens of each, however long these take on a machine that is
    busy."""
    started = begin(job, folder, *words)
    for pid in {rank.pid for rank in job.ranks()} & spies().keys():
        wait_for_samples(pid, 100)
    started.send_signal(signal.SIGINT)
    return finish(started)


def spies() -> dict[int, int]:
    """The py-spy that records a process, by the pid of that."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if words[1:3] == [b"record", b"--pid"]:  # not that of its guard, if it has one
                found[int(words[3])] = int(path.parent.name)
    return found


def wait_for_samples(pid: int, count: int = 20) -> None:
    """The thread of py-spy that takes them is woken for each."""
    spy = spies()[pid]

    def woken() -> int:
        threads = Path(f"/proc/{spy}/task").iterdir()
        return sum(read_thread(spy, int(thread.name)).switches for thread in threads)

    before = woken()
    wait_for(lambda: woken() > before + count, "samples")


def kill(pid: int, number: int) -> None:
    """And wait until it has ended."""
    os.kill(pid, number)
    wait_for(lambda: (stat := read_stat(pid)) is None or stat.state in "ZX", "its end")


def finish(started: subprocess.Popen[str], status: int = 0) -> Any:
    output, complaint = started.communicate(timeout=PATIENCE)
    assert started.returncode == status, complaint
    return json.loads(output)


def places(document: Any, rank: int) -> dict[str, float]:
    """What share of its time that rank spends in which function."""
    index = [entry["rank"] for entry in document["ranks"]].index(rank)
    found: dict[str, float] = {}
    for row in document["rows"]:
        name = row["where"]["function"]
        found[name] = found.get(name, 0.0) + row["shares"][index]
    return found


# --- from outside -------------------------------------------------------------------------


@pytest.mark.extra
def test_ranks_without_agents(plain: Job, tmp_path: Path) -> None:
    """Where each main thread spends its time, in shares that add up to all of it."""
    document = profile_samples(plain, tmp_path / "out")
    assert document["no_response"] == []
    assert [sum(places(document, rank).values()) for rank in range(4)] == pytest.approx(
        [1.0] * 4, abs=0.001
    )
    assert places(document, 0)["one"] + places(document, 0)["other"] > 0.9
    assert places(document, 1)["waits"] == 1.0
    assert places(document, 3)["holds_gil"] == 1.0
    assert all(entry["whole"] > 20 for entry in document["ranks"])


def test_the_picture_has_all_threads(plain: Job, tmp_path: Path) -> None:
    """Idle ones too, in files that nobody else can reach."""
    document = profile(plain, tmp_path / "out", "2")
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    page, scope = (Path(name) for name in document["files"])
    assert "pump-north" in page.read_text()
    names = {frame["name"] for frame in json.loads(scope.read_text())["shared"]["frames"]}
    assert {"MainThread", "pump-north", "pump-south", "with_threads", "pump"} <= names


@pytest.mark.extra
def test_frames_of_c(plain: Job, tmp_path: Path) -> None:
    """With --native, which leaves the rank running, and tells how long it was stopped."""
    document = profile_samples(plain, tmp_path / "out", "1", "--native")
    page = Path(document["files"][0]).read_text()
    assert "lock_PyThread_acquire_lock" in page or "sem_" in page or "pthread_cond" in page
    (entry,) = document["ranks"]
    assert (document["rate"], entry["rate"]) == (20, 20)
    assert 0 <= entry["stopped"] < 1
    plain.wait_for(lambda ranks: {r.number: r.state for r in ranks}.get(1) == "no agent")


def test_a_difference(plain: Job, tmp_path: Path) -> None:
    """Only the ranks that are compared are profiled, and the table is about them."""
    options = ("--seconds", "2", "--output", tmp_path / "out", "--diff", "ranks(0)", "1")
    result = plain.cli("profile", *options)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert re.match(r"ranks 0-1: \d+\.\d s ", lines[0])
    assert lines[2].split() == ["0", "1", "MORE", "WHERE"]
    assert lines[3].split()[:7] == ["0", "%", "100", "%", "+100", "%", "waits"]
    assert all(len(line) <= 80 for line in lines if str(tmp_path) not in line)


def test_it_is_shown_in_the_browser(plain: Job, tmp_path: Path) -> None:
    """--open; where there is none, the file is named."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/shown\n')
    browser.chmod(0o755)
    first, second = tmp_path / "first", tmp_path / "second"
    profile(plain, first, "1", "--open", env={"BROWSER": str(browser)})
    assert (tmp_path / "shown").read_text().strip() == (first / "flame.html").as_uri()
    options = ("--seconds", "2", "--output", second, "1", "--open")
    result = plain.cli("profile", *options, env={"BROWSER": "", "DISPLAY": "", "PATH": ""})
    assert result.returncode == 0, result.stderr
    assert f"no browser found; open this file in a browser: {second}/flame.html" in result.stderr


def test_ctrl_c_keeps_what_there_is(plain: Job, tmp_path: Path) -> None:
    """It ends at once, with all files, and no py-spy is left."""
    started = begin(plain, tmp_path / "out")
    for rank in plain.ranks():
        wait_for_samples(rank.pid)
    started.send_signal(signal.SIGINT)
    document = finish(started)
    assert document["cut_short"]
    assert document["seconds"] < 60
    assert [entry["rank"] for entry in document["ranks"]] == [0, 1, 2, 3]
    pids = {rank.pid for rank in plain.ranks()}
    wait_for(lambda: not pids & spies().keys(), "no py-spy")


def test_a_rank_that_dies_in_the_middle(job: Job, tmp_path: Path) -> None:
    """What was seen of it until then is kept, and it is said."""
    job.start_ranks("waits", "waits", agent=False)
    ranks = job.wait_at("waits", "waits")
    started = begin(job, tmp_path / "out")
    for rank in ranks:
        wait_for_samples(rank.pid)
    kill(ranks[1].pid, signal.SIGKILL)
    started.send_signal(signal.SIGINT)
    document = finish(started)
    assert [(entry["rank"], entry["notes"]) for entry in document["ranks"]] == [
        (0, []),
        (1, ["it ended while recording"]),
    ]
    assert places(document, 1) == {"waits": 1.0}


@pytest.mark.extra
@pytest.mark.slow
def test_ranks_that_spend_no_time(job: Job, tmp_path: Path) -> None:
    """Stopped, dead: the reason, as stacks gives it; one in state D is looked at all the same."""
    job.start_ranks("waits", "waits", "waits", "in_state_d", env={"BEHAVE_SCRATCH": str(tmp_path)})
    ranks = job.wait_at("waits", "waits", "waits", "in_state_d")
    pids = {rank.number: rank.pid for rank in ranks}
    # So it is for a moment when it starts the compiler, too.
    wait_for((tmp_path / "3.so").exists, "what it compiles")
    wait_for(lambda: (stat := read_stat(pids[3])) and stat.state == "D", "state D")
    os.kill(pids[1], signal.SIGSTOP)
    os.kill(pids[2], signal.SIGKILL)
    job.wait_for(lambda ranks: {"stopped", "zombie"} <= {rank.state for rank in ranks})
    document = profile(job, tmp_path / "out")
    reasons = {entry["rank"]: entry["reason"] for entry in document["no_response"]}
    assert reasons[1] == f"stopped by a signal; kill -CONT {pids[1]} resumes it"
    assert reasons[2].endswith("has not reaped it (zombie)")
    notes = {entry["rank"]: entry["notes"] for entry in document["ranks"]}
    assert notes[0] == []
    assert notes[3][0].startswith("process is in state D")


BAD_INPUT = {
    (
        "--seconds",
        "0",
    ): "argument --seconds: invalid time '0': expected a number of seconds above 0",
    ("--kind", "gpu"): "argument --kind: invalid choice: 'gpu'",
    ("--kind", "nsys", "--diff", "0", "1"): "--diff does not work with --kind nsys",
    ("--rate", "0"): "argument --rate: invalid number '0': expected a whole number from 1 to 1000",
    ("99",): "no rank 99",
    ("--diff", "0", "99"): "no rank 99",
    ("--diff", "0,1", "0-1"): "--diff names the same ranks twice: 0-1",
    ("0", "--diff", "0", "1"): "--diff names ranks that are not profiled: 1",
    ("--kind", "torch", "--rate", "5"): "--rate needs --kind cpu",
    ("--kind", "memory", "--stack"): "--stack needs --kind torch",
    ("--output", "/etc"): "/etc already exists",
    ("--output", "/proc/no/such"): "cannot write /proc/no/such: No such file or directory",
}


@pytest.mark.parametrize("words", BAD_INPUT, ids=" ".join)
def test_bad_input(
    plain: Job,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One sentence, status 2, and nothing is recorded. (In this process, which is quicker.)"""
    monkeypatch.setenv("RANKDBG_DIR", str(plain.directory))
    status = cli.main(["profile", "--job", plain.name, *words])
    output, complaint = capsys.readouterr()
    assert (status, output) == (2, "")
    assert complaint.startswith(f"error: {BAD_INPUT[words]}")
    assert "Traceback" not in complaint


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_at_home(plain: Job, tmp_path: Path) -> None:
    """One sentence, and half a picture is not left there."""
    with small_disk(tmp_path / "disk", "8k") as disk:
        folder = disk / "out"
        result = plain.cli("profile", "--seconds", "2", "--output", folder)
        assert result.returncode == 2
        assert result.stderr.splitlines()[1:] == [
            f"error: cannot write {folder}: No space left on device",
            "  hint: choose another directory: --output DIR",
        ]
        assert list(disk.iterdir()) == []


# --- from inside --------------------------------------------------------------------------


def in_training(test: Callable[..., None]) -> Any:
    """Its ranks load torch first, which takes long on a machine that is busy."""
    return pytest.mark.slow(test)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """Three ranks over gloo, the last of which is slow and hoards."""
    pytest.importorskip("torch", reason="needs torch")
    job = Job(f"profile-{os.urandom(3).hex()}", tmp_path_factory.mktemp("training"))
    job.start_torch(3, PROGRAMS / "profiled_torch.py", "hoards")

    def moves() -> bool:
        ranks = job.ranks()
        functions = [rank.where.function for rank in ranks if rank.where]
        return functions.count("train_step") == 2 and "load_batch" in functions

    wait_for(moves, "ranks that train")
    yield job
    job.end()


def operators(folder: Path) -> dict[str, set[str]]:
    """Of the merged trace: what each process of it has done."""
    with gzip.open(folder / "trace.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    found: dict[str, set[str]] = {name: set() for name in names.values()}
    for event in events:
        if event["ph"] == "X":
            found[names[event["pid"]]].add(event["name"])
    return found


@in_training
def test_memory(training: Job, tmp_path: Path) -> None:
    """Who holds it, by memray: the rank that hoards, at its line."""
    pytest.importorskip("memray", reason="needs memray")
    document = profile_steps(training, tmp_path / "out", "--kind", "memory", count=12)
    assert document["no_response"] == []
    (row,) = [row for row in document["rows"] if row["where"]["function"] == "load_batch"]
    held = [s * e["whole"] for s, e in zip(row["shares"], document["ranks"], strict=True)]
    assert held[2] > 5_000_000 > held[0] + held[1]
    assert all(Path(entry["files"]["memray"]).stat().st_size for entry in document["ranks"])


@in_training
def test_the_slowest_rank_is_named(training: Job, tmp_path: Path) -> None:
    """Who waits least for the others, and what it does instead."""
    document = profile(training, tmp_path / "out", "--seconds", "2")
    slow = document["slowest"]
    assert slow["rank"] == 2
    assert slow["waits"] < slow["others_wait"]
    assert slow["more"][0]["where"]["function"] == "load_batch"


@in_training
def test_operators_of_all_ranks_on_one_time_line(training: Job, tmp_path: Path) -> None:
    """Those of the main thread and of gloo's, though the agent's thread has begun it; and the
    ranks go on, and can be profiled again."""
    for folder, options in ((tmp_path / "first", ()), (tmp_path / "second", ("--stack",))):
        document = profile_steps(training, folder, "--kind", "torch", *options)
        assert document["no_response"] == []
        assert [entry["notes"] for entry in document["ranks"]] == [[], [], []]
        waits = {row["where"]["function"] for row in document["rows"] if row["waits"]}
        assert "gloo:all_reduce" in waits
        done = operators(folder)
        assert [name.split(" · ")[0] for name in done] == ["rank 0", "rank 1", "rank 2"]
        assert all({"aten::mm", "gloo:all_reduce"} <= names for names in done.values())
    assert all(any("train_step" in name for name in names) for names in done.values())


@in_training
def test_ranks_that_stand_still(training: Job, tmp_path: Path) -> None:
    """They wait for one that is stopped: each is on the time line, and said to do nothing."""
    (slow,) = [rank.pid for rank in training.ranks() if rank.number == 2]
    os.kill(slow, signal.SIGSTOP)
    folders = (tmp_path / str(number) for number in itertools.count())
    try:

        def still() -> Any:
            document = profile(training, folder := next(folders), "0,1", "--kind", "torch")
            idle = all(profile_files.NOTHING_DONE in entry["notes"] for entry in document["ranks"])
            return (document, operators(folder)) if idle else None

        document, done = wait_for(still, "ranks that wait")
        options = ("--kind", "torch", "--seconds", "0.5", "--output", next(folders))
        text = training.cli("profile", "0,1", *options).stdout
    finally:
        os.kill(slow, signal.SIGCONT)
    assert [name.split(" · ")[0] for name in done] == ["rank 0", "rank 1"]
    assert list(done.values()) == [set(), set()]
    (row,) = document["rows"]
    assert row["shares"] == [1.0, 1.0]
    assert document["slowest"] is None
    assert f"note: ranks 0-1: {profile_files.NOTHING_DONE}" in text


@in_training
def test_a_full_disk_of_a_node(training: Job, tmp_path: Path) -> None:
    """Each rank says that its trace could not be written, and goes on."""
    with small_disk(tmp_path / "disk", "16k") as disk:
        options = ("--kind", "torch")
        started = begin(training, tmp_path / "out", *options, env={"TMPDIR": str(disk)})
        wait_for_steps(training, 6)
        started.send_signal(signal.SIGINT)
        document = finish(started, 1)
        reasons = {entry["rank"]: entry["reason"] for entry in document["no_response"]}
        assert sorted(reasons) == [0, 1, 2]
        reason = f"its trace could not be written to {disk}: is the disk full?"
        assert all(said.startswith(reason) for said in reasons.values())
        assert not (tmp_path / "out").exists()
        assert list(disk.iterdir()) == []
    training.wait_for(lambda ranks: [rank.state for rank in ranks] == ["running"] * 3)


def test_ranks_that_have_nothing_to_record(job: Job, tmp_path: Path) -> None:
    """Without torch, and without an agent: the reason of each, at once, and no directory."""
    job.start_ranks("waits", "waits")
    job.wait_at("waits", "waits")
    options = ("--kind", "torch", "--seconds", 600, "--output", tmp_path / "out")
    result = job.cli("profile", *options, env={"TMPDIR": str(tmp_path)})
    assert result.returncode == 1
    assert result.stdout == "no response: 0-1  (it has not loaded torch)\n"
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob("rankdbg-profile-*"))


@pytest.mark.extra
@in_training
def test_a_program_that_ends_in_the_middle(training: Job, tmp_path: Path) -> None:
    """In order: what torch has recorded until then is written and kept. (Last, since its
    launcher then ends the other ranks.)"""
    pid = next(rank.pid for rank in training.ranks() if rank.number == 0)
    started = begin(training, tmp_path / "out", "--kind", "torch")
    wait_for_steps(training)
    kill(pid, signal.SIGINT)
    started.send_signal(signal.SIGINT)
    document = finish(started)
    (entry,) = [entry for entry in document["ranks"] if entry["rank"] == 0]
    assert entry["notes"][0].startswith("it ended while recording")
    done = operators(tmp_path / "out")
    assert all("aten::mm" in names for name, names in done.items() if name.startswith("rank 0"))


def profile_steps(job: Job, folder: Path, *options: str, count: int = 3) -> Any:
    """Of some whole steps, however long these take on a machine that is busy."""
    started = begin(job, folder, *options)
    wait_for_steps(job, count)
    started.send_signal(signal.SIGINT)
    return finish(started)


def wait_for_steps(job: Job, count: int = 3) -> None:
    """So many more of rank 0, and so of all."""

    def step() -> int:
        return int(job.json("ask", "0", "step", "--frame", "main")["groups"][0]["value"])

    before = step()
    wait_for(lambda: step() >= before + count, "steps that are recorded")


@pytest.mark.extra
def test_a_directory_that_cannot_be_written(plain: Job, tmp_path: Path) -> None:
    """It is said before anything is recorded, with where else it can go."""
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("needs the right to make namespaces")
    words = command("profile", "--job", plain.name, "--seconds", "600")
    line = f"mount -t tmpfs -o ro tmpfs {tmp_path} && cd {tmp_path} && {shlex.join(words)}"
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", line],
        env=plain.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: cannot write rankdbg-profile-")
    assert "Read-only file system" in result.stderr
    assert "hint: choose another directory: --output DIR" in result.stderr
    assert "recording" not in result.stderr
