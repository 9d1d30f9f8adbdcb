"""rankdbg stacks --core: what is left of processes that have crashed, in the same tree."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import PROGRAMS, rankdbg
from waiting import PATIENCE

CRASHES = PROGRAMS / "crashes.py"


def crash(how: str, log: Path) -> Path:
    """What a process that does so has written on its stderr."""
    words = [sys.executable, CRASHES, how]
    with log.open("w") as file:
        subprocess.run(words, stderr=file, stdout=subprocess.DEVNULL, check=False, timeout=PATIENCE)
    return log


def stacks(*words: object) -> Any:
    result = rankdbg("stacks", "--json", "--core", *words)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def lines(document: Any, thread: str, ranks: str) -> list[str]:
    (group,) = [g for g in document["groups"] if g["thread"] == thread and g["ranks"] == ranks]
    return [frame["function"] for frame in group["frames"]]


def test_what_faulthandler_wrote(tmp_path: Path) -> None:
    """Several files are several ranks, merged; each with its file and what ended it."""
    first = crash("segfaults", tmp_path / "rank_4.log")
    second = crash("aborts", tmp_path / "rank_7.log")
    document = stacks(first, second)
    assert lines(document, "main thread", "4") == ["string_at", "segfaults", "<module>"]
    assert lines(document, "main thread", "7") == ["aborts", "<module>"]
    assert lines(document, "thread", "4,7")[2] == "pump"
    assert document["details"] == {
        "4": f"{first}: Segmentation fault",
        "7": f"{second}: Aborted",
    }
    assert document["sources"] == {"4": "faulthandler", "7": "faulthandler"}
    text = rankdbg("stacks", "--core", first, second).stdout
    assert "└─ <module> crashes.py:" in text
    only_main = stacks(first, second, "--threads", "main")
    assert {group["thread"] for group in only_main["groups"]} == {"main thread"}


def test_a_crash_in_another_thread(tmp_path: Path) -> None:
    """The thread that crashed is shown by that name."""
    document = stacks(crash("thread_segfaults", tmp_path / "log"))
    assert "thread_segfaults" in lines(document, "main thread", "0")
    assert lines(document, "current thread", "0")[:2] == ["string_at", "segfaults"]


@pytest.mark.parametrize("how", ["is_asked_twice", "is_late"])
def test_two_dumps_of_one_process_are_two_samples(tmp_path: Path, how: str) -> None:
    """What stands between them in a log is passed over; a line that changed is movement."""
    log = crash(how, tmp_path / "log")
    text = log.read_text()
    log.write_text(f"step 1\nloss 2.5\n{text}\nTraceback (most recent call last):\n  ...\n")
    document = stacks(log)
    assert document["samples"] == 2
    assert document["sources"] == {"0": "faulthandler"}
    moving = {group["thread"]: group["moving"] for group in document["groups"]}
    assert moving == {"main thread": how == "is_late", "thread": False}


def test_a_log_in_which_ranks_alternate(tmp_path: Path) -> None:
    """A launcher's word before each line tells them apart."""
    log = tmp_path / "all.log"
    first = crash("segfaults", tmp_path / "1").read_text().splitlines()
    second = crash("aborts", tmp_path / "2").read_text().splitlines()
    with log.open("w") as file:
        for index in range(max(len(first), len(second))):
            for rank, text in ((3, first), (11, second)):
                file.write(f"[rank{rank}]: {text[index]}\n" if index < len(text) else "")
    document = stacks(log)
    assert lines(document, "main thread", "3")[0] == "string_at"
    assert lines(document, "main thread", "11")[0] == "aborts"


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a process that lives on: made with gdb, wherever the kernel would put one."""
    if not shutil.which("gdb"):
        pytest.skip("needs gdb")
    path = tmp_path_factory.mktemp("core") / "core"
    words = [sys.executable, str(CRASHES), "waits"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        dump = ["gdb", "-batch", "-nx", "-ex", f"generate-core-file {path}", "-p", str(process.pid)]
        subprocess.run(dump, check=True, capture_output=True, timeout=PATIENCE)
        process.kill()
    return path


def test_a_core_file(core: Path, tmp_path: Path) -> None:
    """Frames of Python and C of the threads that run Python, merged with other files."""
    document = stacks(core)
    stack = lines(document, "main thread", "0")
    assert stack[-4:] == ["wait", "wait", "waits", "<module>"]
    assert stack[0].startswith(("sem_", "pthread_", "futex_"))
    assert document["sources"] == {"0": "pystack"}
    both = stacks(crash("aborts", tmp_path / "log"), core)
    (root,) = both["tree"][0]["nodes"]
    assert root["ranks"] == "0-1"
    assert both["sources"] == {"0": "faulthandler", "1": "pystack"}
    assert stacks(core, "--exe", sys.executable)["groups"] == document["groups"]


def test_a_core_file_of_a_crash(tmp_path: Path) -> None:
    """The signal that ended it is said."""
    if Path("/proc/sys/kernel/core_pattern").read_text().strip() != "core":
        pytest.skip("core files of this machine go elsewhere")

    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)

    words = [sys.executable, CRASHES, "aborts"]
    subprocess.run(words, cwd=tmp_path, preexec_fn=allow, stderr=subprocess.DEVNULL, check=False)
    (file,) = tmp_path.glob("core*")
    document = stacks(file)
    assert document["details"] == {"0": f"{file}: SIGABRT"}
    stack = lines(document, "main thread", "0")
    assert stack[-2:] == ["aborts", "<module>"]
    assert "abort" in stack


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "neither a core file nor a log with faulthandler output"),
        (b"step 1\nstep 2\n", "neither a core file nor a log with faulthandler output"),
        (b"\x7fELF" + b"\0" * 5000, "pystack cannot read it"),
        (
            os.urandom(1000).replace(b"\x7f", b""),
            "neither a core file nor a log with faulthandler output",
        ),
    ],
    ids=["empty", "log", "broken core", "binary"],
)
def test_files_that_are_neither(tmp_path: Path, content: bytes, said: str) -> None:
    """One sentence for each, exit status 2, no traceback."""
    file = tmp_path / "file"
    file.write_bytes(content)
    result = rankdbg("stacks", "--core", file)
    assert result.returncode == 2
    assert result.stderr.startswith("error: nothing to show in these files\n")
    assert f"{file}: {said}" in result.stderr


def test_a_core_file_that_is_cut_short(core: Path, tmp_path: Path) -> None:
    """It is named, beside one that can be read."""
    short = tmp_path / "short"
    short.write_bytes(core.read_bytes()[: 1 << 20])
    result = rankdbg("stacks", "--core", short)
    assert result.returncode == 2
    assert str(short) in result.stderr
    document = stacks(short, crash("aborts", tmp_path / "log"))
    (silence,) = document["no_response"]
    assert silence["rank"] == 0
    assert lines(document, "main thread", "1") == ["aborts", "<module>"]


def test_no_such_file() -> None:
    """The name and the reason."""
    result = rankdbg("stacks", "--core", "/nonexistent/core")
    assert result.returncode == 2
    assert "error: cannot read /nonexistent/core: No such file or directory" in result.stderr
