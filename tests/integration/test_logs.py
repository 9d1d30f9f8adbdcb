"""logs: what all ranks have written, merged and folded; live, from files, over ssh."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crashes import out_of_memory_on_one_rank
from jobs import PROGRAMS, Job, rankdbg
from ssh_hosts import Hosts
from waiting import PATIENCE, wait_for

WRITES = PROGRAMS / "writes_logs.py"


class Logging:
    """A job of four ranks that log into a directory."""

    def __init__(self, scratch: Path, *file: str) -> None:
        self.folder = scratch / "logs"
        self.folder.mkdir()
        self.job = Job(f"logs-{os.urandom(3).hex()}", scratch)
        launcher = [sys.executable, PROGRAMS / "launch.py", 4, WRITES, self.folder, *file]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.job.start(*launcher, **quiet)
        wait_for(lambda: len([*self.folder.glob("ready-*")]) == 4)

    def lines(self, *words: object) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.job.json("logs", *words)["lines"]
        return found

    def say(self, text: str) -> None:
        """Each rank, into its own file."""
        (self.folder / "new").write_text(text)
        (self.folder / "new").rename(self.folder / "say")
        files = [*self.folder.glob("[abcd].log")]
        wait_for(lambda: sum(text in file.read_text() for file in files) == 4, text)


@pytest.fixture(scope="module")
def logging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logging]:
    logging = Logging(tmp_path_factory.mktemp("apart"))
    yield logging
    logging.job.end()


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logging]:
    logging = Logging(tmp_path_factory.mktemp("together"), "train.log")
    yield logging
    logging.job.end()


def said(lines: list[dict[str, Any]]) -> dict[str, str]:
    """Text -> ranks."""
    return {line["text"].partition("\n")[0]: line["ranks"] for line in lines}


def test_ranks_with_files_of_their_own(logging: Logging) -> None:
    """Equal lines are one, with their ranks; lines that differ in a number are not; a traceback
    is one message; the secret in it is masked."""
    lines = logging.lines()
    found = said(lines)
    assert [found[f"INFO - step {n} loss {2.5 - n / 10:.2f}"] for n in range(5)] == ["0-3"] * 5
    assert [found[f"INFO - gradients {1000 + rank}"] for rank in range(4)] == ["0", "1", "2", "3"]
    assert found["ERROR - a batch was empty, key ***"] == "3"
    (trace,) = [line["text"] for line in lines if line["text"].startswith("Traceback")]
    assert trace.endswith("IndexError: list index out of range")


def test_text_on_80_columns(logging: Logging) -> None:
    """Time, ranks, text; what belongs to a line stands below it."""
    shown = logging.job.cli("logs", "3", "--grep", "IndexError")
    day, first, *more = shown.stdout.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  3  Traceback \(most recent call last\):", first)
    assert all(line.startswith(" " * 17) for line in more)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_selected_ranks(logging: Logging) -> None:
    """Only theirs; one that is not there is an error that says who is."""
    assert {line["ranks"] for line in logging.lines("1-2")} == {"1", "2", "1-2"}
    wrong = logging.job.cli("logs", "7")
    assert wrong.returncode == 2
    assert "no rank 7" in wrong.stderr and "0-3" in wrong.stderr


def test_tail_and_since(logging: Logging) -> None:
    """The last messages; that there are older ones is said. Nothing in that time: status 1."""
    shown = logging.job.cli("logs", "0", "--tail", "1")
    assert shown.stdout.splitlines()[1].endswith("  0  ready")
    assert "older messages than" in shown.stderr and "--tail N" in shown.stderr
    none = logging.job.cli("logs", "--until", "2000-01-01")
    assert (none.returncode, none.stdout, none.stderr) == (1, "", "no messages\n")


def test_difference(logging: Logging) -> None:
    """What rank 3 has logged and the others have not; numbers make no difference."""
    document = logging.job.json("logs", "3", "--diff")
    assert document["group"] == "3"
    only = [kind["text"].partition("\n")[0] for kind in document["only_group"]]
    assert only == ["ERROR - a batch was empty, key ***", "Traceback (most recent call last):"]
    assert document["only_others"] == []
    some = logging.job.json("logs", "--diff")["some"]
    assert {kind["ranks"] for kind in some} == {"3"}
    shown = logging.job.cli("logs", "--diff", "3")
    assert shown.stdout.startswith("logged by rank 3, not by ranks 0-2: 2 kinds of messages\n")
    assert "numbers, addresses and hashes are not compared" in shown.stderr


def test_one_file_for_all(together: Logging) -> None:
    """Lines that say their rank are that rank's, and folded; others are nobody's."""
    lines = together.lines()
    found = said(lines)
    assert [found[f"INFO - step {n} loss {2.5 - n / 10:.2f}"] for n in range(5)] == ["0-3"] * 5
    assert found["Traceback (most recent call last):"] == "3"
    assert [line["others"] for line in lines if line["text"] == "ready"] == [["train.log"]] * 4
    assert {line["ranks"] for line in together.lines("2")} == {"2"}


class Following:
    """`rankdbg logs --follow`, and what it has shown so far."""

    def __init__(self, scratch: Path, *words: object, **settings: Any) -> None:
        command = [sys.executable, "-m", "rankdbg", "logs", "--follow", *map(str, words)]
        self._file = scratch / "shown"
        with self._file.open("w") as file:
            self._process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.PIPE, text=True, **settings
            )

    @property
    def shown(self) -> str:
        return self._file.read_text()

    def wait_for(self, text: str) -> None:
        wait_for(lambda: text in self.shown, lambda: f"{text!r} in {self.shown}")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """What is written meanwhile is found in one look, however long the ranks take."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def interrupt(self) -> tuple[int, str]:
        self._process.send_signal(signal.SIGINT)
        _, complaints = self._process.communicate(timeout=PATIENCE)
        return self._process.returncode, complaints


def test_follow_a_job(logging: Logging, tmp_path: Path) -> None:
    """What ranks write while somebody looks is shown, folded; Ctrl-C ends with 0."""
    words = ("--job", logging.job.name, "--tail", "1")
    following = Following(tmp_path, *words, env=logging.job.environment)
    following.wait_for("ready")
    with following.held():
        logging.say("all is well")
    following.wait_for("  0-3   INFO - all is well\n")
    assert following.interrupt() == (0, "")


def test_follow_as_json(logging: Logging, tmp_path: Path) -> None:
    """One object a line."""
    words = ("--job", logging.job.name, "--json", "--tail", "1")
    following = Following(tmp_path, *words, env=logging.job.environment)
    wait_for(lambda: following.shown)
    with following.held():
        logging.say("once more")
    following.wait_for("once more")
    assert following.interrupt()[0] == 0
    *_, last = map(json.loads, following.shown.splitlines())
    assert (last["ranks"], last["text"]) == ("0-3", "INFO - once more")


def test_follow_files(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Files that are rotated, emptied, or come later are followed; each line is shown once."""
    scratch = tmp_path_factory.mktemp("shown")
    one, other = tmp_path / "rank_0.log", tmp_path / "rank_1.log"
    one.write_text("first\n")
    following = Following(scratch, tmp_path)
    following.wait_for("first")
    one.rename(tmp_path / "rank_0.log.1")
    one.write_text("rotated\n")
    following.wait_for("rotated")
    one.write_text("")
    other.write_text("a rank that came later\n")
    following.wait_for("a rank that came later")
    with one.open("a") as file:
        file.write("emptied\n")
    following.wait_for("emptied")
    assert following.interrupt()[0] == 0
    for text in ("first", "rotated", "a rank that came later", "emptied"):
        assert following.shown.count(text) == 1


def test_directory_of_a_colleague(tmp_path: Path) -> None:
    """No job is needed. The failure of one rank stands out; `10m` is counted from the last line."""
    out_of_memory_on_one_rank().write(tmp_path)
    document = json.loads(rankdbg("logs", "--json", "--grep", "OutOfMemory", tmp_path).stdout)
    assert {line["ranks"] for line in document["lines"]} == {"3"}
    assert rankdbg("logs", tmp_path, "--since", "10m").returncode == 0
    wrong = rankdbg("logs", "99", tmp_path)
    assert wrong.returncode == 2
    assert "no rank 99" in wrong.stderr


def test_session_directory_of_ray(tmp_path: Path) -> None:
    """Who is hidden behind [repeated 3x across cluster] shows again from the workers' own files;
    without these, it is said that some are hidden."""
    driver, logs = tmp_path / "driver.log", tmp_path / "session_2026-11-15" / "logs"
    logs.mkdir(parents=True)
    driver.write_text(
        "\x1b[36m(Trainer pid=11)\x1b[0m loading\n"
        "\x1b[36m(Trainer pid=13, ip=10.0.0.2)\x1b[0m loading\x1b[32m [repeated 2x across cluster]"
        "\x1b[0m (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable.)\n"
    )
    for pid in (11, 12, 13):
        file = logs / f"worker-{pid:056x}-01000000-{pid}.out"
        file.write_text(f":job_id:01000000\n:actor_name:Trainer\nloading\n[rank{pid - 11}]: up\n")
    lines = json.loads(rankdbg("logs", "--json", tmp_path).stdout)["lines"]
    names = ["Trainer:11", "Trainer:12", "Trainer:13"]
    assert [line["others"] for line in lines if line["text"] == "loading"] == [names]
    assert not any("repeated" in line["text"] for line in lines)
    alone = rankdbg("logs", driver)
    assert "loading  [repeated 2x across cluster]" in alone.stdout
    assert "Ray has left out 2 equal messages" in alone.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere/"], "no file or directory nowhere/"),
        (["train.log"], "no file or directory train.log"),
        (["3", "4"], "ranks must be one argument, not 3 4"),
        ([".", "--grep", "["], "invalid regular expression '[' for --grep"),
        ([".", "--since", "yesterday"], "invalid time 'yesterday' for --since"),
        ([".", "--since", "10:41", "--until", "10:40"], "is not before"),
        ([".", "--tail", "0"], "invalid number '0': expected a whole number"),
        ([".", "--diff"], "--diff compares ranks"),
        ([".", "--follow", "--diff"], "not allowed with"),
        (["tp=0", "."], "no dimension tp"),
        (["-t", "snapshot:x"], "a snapshot contains no logs"),
    ],
)
def test_bad_input(tmp_path: Path, words: list[str], message: str) -> None:
    """One sentence, exit status 2, no traceback."""
    (tmp_path / "rank_0.log").write_text("2026-11-15 10:41:07 hello\n")
    result = rankdbg("logs", *words, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


def test_number_that_is_a_directory(tmp_path: Path) -> None:
    """It is a path, which is said; ranks(0) is the rank."""
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "rank.log").write_text(f"[rank{rank}]: hello\n")
    shown = rankdbg("logs", "0", cwd=tmp_path)
    assert shown.stdout.split() == ["0", "hello"]
    assert "to select the rank, write 'ranks(0)'" in shown.stderr
    assert rankdbg("logs", "ranks(1)", ".", cwd=tmp_path).stdout.split() == ["1", "hello"]


@pytest.mark.slow
def test_over_ssh(tmp_path: Path) -> None:
    """The files of two hosts, read there and merged here; paths on the hosts too."""
    with Hosts(tmp_path / "hosts", "host-1", "host-2") as hosts:
        for rank, name in enumerate(hosts.names):
            folder = tmp_path / name
            folder.mkdir()
            hosts.start_rank(name, "far", rank, 2, WRITES, folder)
        wait_for(lambda: len([*tmp_path.glob("host-*/ready-*")]) == 2)
        settings: dict[str, Any] = {"env": hosts.environment()}
        # The start of a node takes longer than an answer may, where much else runs.
        patient = ("--timeout", 30)
        shown = rankdbg("logs", "-t", hosts.target, "--json", *patient, **settings)
        assert shown.returncode == 0, shown.stderr
        found = said(json.loads(shown.stdout)["lines"])
        assert found["INFO - step 4 loss 2.10"] == "0-1"
        path = tmp_path / "host-2" / "b.log"
        there = rankdbg("logs", "-t", "ssh:host-2", path, "--tail", "1", *patient, **settings)
        assert there.stdout.rstrip().endswith("ready")
