"""`stacks` and `why` on what py-spy, pystack, gdb and faulthandler print of real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hanging import HangingJob, Start
from jobs import rankdbg
from torch_ranks import needs_torch
from waiting import wait_for

BESIDE = Path(sys.executable).parent
PROGRAM = """\
import faulthandler, signal, sys, threading, time
class Loader:
    def fetch(self, index):
        api_token = "hunter2"
        time.sleep(1000)
def step(rank):
    Loader().fetch(rank)
faulthandler.register(signal.SIGUSR1, file=open(sys.argv[1], "w"))
threading.Thread(target=time.sleep, args=(1000,), daemon=True, name="pump").start()
print("ready", flush=True)
step(int(sys.argv[2]))
"""


def pyspy(pid: int, *options: str) -> str:
    return subprocess.check_output(
        [BESIDE / "py-spy", "dump", *options, "--pid", str(pid)], text=True
    )


def pystack(pid: int, *options: str) -> str:
    return subprocess.check_output([BESIDE / "pystack", "remote", *options, str(pid)], text=True)


def gdb(pid: int, command: str = "thread apply all bt") -> str:
    settings = ("-batch", "-nx", "-iex", "set debuginfod enabled off")
    loads = ("-iex", "set auto-load safe-path /")
    words = ["gdb", *settings, *loads, "-ex", command, "-p", str(pid)]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def run_json(verb: str, *words: object, **settings: Any) -> Any:
    result = rankdbg(verb, "--json", *words, **settings)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def sleepers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[int, Path]]]:
    """Two processes, each with the file to which its faulthandler writes."""
    folder = tmp_path_factory.mktemp("sleepers")
    program = folder / "train.py"
    program.write_text(PROGRAM)
    started = []
    try:
        for rank in range(2):
            fault = folder / f"fault-rank{rank}.txt"
            process = subprocess.Popen(
                [sys.executable, program, fault, str(rank), "--rank", str(rank)],
                stdout=subprocess.PIPE,
                env={**os.environ, "RANKDBG": "0"},
            )
            started.append(process)
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        pids = [process.pid for process in started]

        def all_asleep() -> bool:
            return all("fetch" in pyspy(pid) for pid in pids)

        wait_for(all_asleep, lambda: pyspy(pids[0]))
        yield [(pid, folder / f"fault-rank{rank}.txt") for rank, pid in enumerate(pids)]
    finally:
        for process in started:
            process.kill()
            process.wait()


def places(document: Any) -> dict[str, list[str]]:
    """The functions of the main thread of each group of ranks, innermost first."""
    return {
        group["ranks"]: [frame["function"].rpartition(".")[2] for frame in group["frames"]]
        for group in document["groups"]
        if group["thread"] == "main thread"
    }


EXPECTED = {"0-1": ["fetch", "step", "<module>"]}


@pytest.mark.parametrize("options", [(), ("--json",), ("--locals",), ("--full-filenames",)])
def test_pyspy_of_two_processes_in_one_file(
    sleepers: list[tuple[int, Path]], tmp_path: Path, options: tuple[str, ...]
) -> None:
    """As text and as JSON; numbers are from the command lines, which JSON does not have."""
    dump = tmp_path / "dump.txt"
    dump.write_text("".join(pyspy(pid, *options) for pid, _ in sleepers))
    document = run_json("stacks", dump)
    assert places(document) == EXPECTED
    assert document["samples"] == 1 and set(document["sources"].values()) == {"py-spy"}
    told = "order" if "--json" in options else "command lines"
    assert told in document["notes"][0]


def test_native_frames_of_pyspy(sleepers: list[tuple[int, Path]], tmp_path: Path) -> None:
    """C functions inside the line of Python."""
    dump = tmp_path / "dump.txt"
    dump.write_text("".join(pyspy(pid, "--native") for pid, _ in sleepers))
    (functions,) = places(run_json("stacks", dump)).values()
    assert functions[-3:] == EXPECTED["0-1"] and "nanosleep" in functions[0]


@pytest.mark.parametrize("options", [(), ("--native-all",), ("--locals",)])
def test_pystack_of_two_processes_in_one_file(
    sleepers: list[tuple[int, Path]], tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Nothing but the main thread of the first tells where the second begins."""
    dump = tmp_path / "dump.txt"
    dump.write_text("".join(pystack(pid, "--no-color", *options) for pid, _ in sleepers))
    (found,) = places(run_json("stacks", dump)).items()
    assert found[0] == "0-1" and found[1][-3:] == EXPECTED["0-1"]


@pytest.mark.skipif(shutil.which("gdb") is None, reason="needs gdb")
def test_gdb_of_two_processes(sleepers: list[tuple[int, Path]], tmp_path: Path) -> None:
    """The frames of C of all threads; with py-bt those of Python."""
    dump = tmp_path / "dump.txt"
    dump.write_text("".join(gdb(pid) for pid, _ in sleepers))
    (found,) = places(run_json("stacks", dump)).items()
    assert found[0] == "0-1" and "clock_nanosleep" in found[1]
    lines = [gdb(pid, "thread apply all py-bt") for pid, _ in sleepers]
    if all("fetch" in text for text in lines):  # gdb's extension of this Python is installed
        dump.write_text("".join(lines))
        assert places(run_json("stacks", dump)) == EXPECTED


def test_faulthandler_in_files_of_ranks(sleepers: list[tuple[int, Path]]) -> None:
    """Numbers are from the names; a second dump is a second sample."""
    for pid, file in sleepers:
        size = file.stat().st_size
        os.kill(pid, signal.SIGUSR1)
        wait_for(lambda file=file, size=size: file.stat().st_size > size, file.read_text)
    document = run_json("stacks", *(file for _, file in sleepers))
    assert places(document) == EXPECTED
    assert "names of the files" in document["notes"][0]


def test_stdin_folders_and_line_prefixes(sleepers: list[tuple[int, Path]], tmp_path: Path) -> None:
    """Through a pipe, from srun's labelled lines with CR LF, and compressed in a folder."""
    texts = [pyspy(pid) for pid, _ in sleepers]
    assert places(run_json("stacks", "-", input="".join(texts))) == EXPECTED
    folder = tmp_path / "dumps"
    folder.mkdir()
    labelled = "\r\n".join(
        f"{rank + 4}: {line}" for rank, text in enumerate(texts) for line in text.splitlines()
    )
    (folder / "all.txt").write_text(labelled)
    document = run_json("stacks", folder)
    assert places(document) == {"4-5": EXPECTED["0-1"]}
    subprocess.run(["gzip", folder / "all.txt"], check=True)
    assert run_json("stacks", folder) == document
    (folder / "other.xz").write_bytes(b"\xfd7zXZ\0damaged")
    (folder / "core.1").write_bytes(b"\x7fELF" + bytes(100))
    beside = run_json("stacks", folder)
    assert beside["groups"] == document["groups"]
    assert sum("cannot read" in note for note in beside["notes"]) == 2
    result = rankdbg("stacks", folder / "other.xz")
    assert result.returncode == 2 and "cannot read" in result.stderr


def test_secrets_among_variables_are_masked(
    sleepers: list[tuple[int, Path]], tmp_path: Path
) -> None:
    """As they are in those of a job that runs."""
    for name, text in (
        ("pyspy.txt", pyspy(sleepers[0][0], "--locals")),
        ("pystack.txt", pystack(sleepers[0][0], "--locals")),
    ):
        dump = tmp_path / name
        dump.write_text(text)
        shown = rankdbg("stacks", "--locals", dump).stdout
        assert "index = 0" in shown and "api_token" in shown
        assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("missing.txt",), "no file or folder missing.txt"),
        (("empty.txt",), "no stack dumps in empty.txt"),
        (("binary.txt",), "no stack dumps in binary.txt"),
        (("core.txt",), "it is a core file"),
        (("empty.txt", "--job", "x"), "without --job"),
        (("empty.txt", "tp=0", "pp=1"), "no file 'tp=0'"),
    ],
)
@pytest.mark.parametrize("verb", ["stacks", "why"])
def test_bad_input_is_one_sentence(
    tmp_path: Path, verb: str, words: tuple[str, ...], told: str
) -> None:
    """With status 2, and no traceback."""
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "binary.txt").write_bytes(os.urandom(100_000))
    (tmp_path / "core.txt").write_bytes(b"\x7fELF" + bytes(100))
    result = rankdbg(verb, *words, cwd=tmp_path)
    assert result.returncode == 2 and told in result.stderr
    assert "Traceback" not in result.stderr


# --- the verdict --------------------------------------------------------------------------

slow = [needs_torch, pytest.mark.slow]


@pytest.fixture
def hanging(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HangingJob]:
    job = HangingJob(Start(request.param, agent=False, ranks="3"), tmp_path / "job")
    try:
        job.wait()
        yield job
    finally:
        job.end()


def dump_all(job: HangingJob, folder: Path, again: str = "", *options: str) -> Path:
    folder.mkdir(exist_ok=True)
    for rank in job.job.ranks():
        (folder / f"rank{rank.number}{again}.txt").write_text(pyspy(rank.pid, *options))
    return folder


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize(
    ("hanging", "cause", "state", "again"),
    [
        # Nothing in Python's frames shows a sleep.
        pytest.param("sleeping", "", "waiting", "stuck", marks=pytest.mark.extra),
        ("thread_join", "thread-join", "stuck", "stuck"),
        pytest.param("endless_loop", "", "waiting", "waiting", marks=pytest.mark.extra),
    ],
    indirect=["hanging"],
)
def test_same_culprit_as_of_the_job(
    hanging: HangingJob, tmp_path: Path, cause: str, state: str, again: str
) -> None:
    """One dump of each rank names it and the cause, and says that it cannot tell about progress;
    so a rank that may be at work is not said to be stuck. Two dumps can, if nothing has moved."""
    live = hanging.why("--longest", "40")
    folder = dump_all(hanging, tmp_path / "dumps")
    found = run_json("why", folder)
    assert (found["culprit"], found["state"]) == (live["culprit"], state)
    assert found["waiting"] == live["waiting"]
    assert not cause or found["cause"] == live["cause"] == cause
    assert found["confidence"] in ("low", "medium")
    assert any("one dump of each rank" in proof for proof in found["evidence"])
    dump_all(hanging, folder, "-later")
    twice = run_json("why", folder)
    # A loop of one line may be seen at the same place twice.
    assert twice["culprit"] == live["culprit"] and twice["state"] in (again, "stuck")
    assert any("between 2 dumps" in proof for proof in twice["evidence"])


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize("hanging", ["healthy_training"], indirect=True)
def test_job_that_runs_is_not_said_to_be_stuck(hanging: HangingJob, tmp_path: Path) -> None:
    """Neither by one dump nor by several."""
    folder = dump_all(hanging, tmp_path / "dumps")
    for again in range(4):
        assert run_json("why", folder)["stuck"] is False
        dump_all(hanging, folder, f"-{again}")
