"""Commands without the third of a second that Python takes to load rankdbg, which is most of the
time that thousands of them take: they are forks of a process that has loaded it already
(programs/serve_commands.py). With RANKDBG_TESTS_COLD=1 each command is a process of its own, as for
a user; what a cold start does is tested by test_cli.py and test_wheel.py in any case."""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

from torch_ranks import PROGRAMS
from waiting import PATIENCE

# What a fork can be told. Whatever else subprocess.run() can do needs a real start.
TOLD = {"env", "cwd", "input", "timeout", "memory"}
OF_A_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC", "GLIBC")


def can_run(settings: dict[str, Any]) -> bool:
    environment = settings.get("env") or os.environ
    return (
        settings.keys() <= TOLD
        and "RANKDBG_TESTS_COLD" not in os.environ
        and _of_a_start(environment) == _of_a_start(os.environ)
    )


def run(
    words: list[str],
    *,
    env: Any = None,
    cwd: Any = None,
    input: str | None = None,  # noqa: A002 - as subprocess.run()
    timeout: float | None = None,
    memory: int = 0,
) -> subprocess.CompletedProcess[str]:
    """As subprocess.run() with text and captured output; `memory`: of its address space, at most."""
    told = {
        "words": words,
        "folder": os.path.abspath(cwd or os.getcwd()),
        "environment": dict(os.environ if env is None else env),
        "memory": memory,
    }
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(_server())
        output, error = _Reader(), _Reader()
        given = _given(input)
        socket.send_fds(wire, [b"\n"], [given.fileno(), output.end, error.end])
        given.close()
        output.begin()
        error.begin()
        wire.sendall(json.dumps(told).encode() + b"\n")
        with wire.makefile("rb") as answers:
            pid = int(answers.readline())
            wire.settimeout(timeout)
            try:
                status = int(answers.readline())
            except TimeoutError:
                print(_where_they_are(pid))  # pytest shows it with the failure
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(words, timeout or 0.0, output.so_far) from None
    return subprocess.CompletedProcess(words, status, output.text(timeout), error.text(timeout))


def _where_they_are(pid: int) -> str:
    """The stacks of a command that does not end, and of what it has started."""
    children = [
        int(child)
        for listed in Path(f"/proc/{pid}/task").glob("*/children")
        for child in listed.read_text().split()
    ]
    return "\n".join(
        subprocess.run(
            [Path(sys.executable).with_name("py-spy"), "dump", "--pid", str(each)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        ).stdout
        for each in (pid, *children)
    )


class _Reader(threading.Thread):
    """Reads one end of a pipe, whose other end the command gets."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        read, self.end = os.pipe()
        self._file: IO[bytes] = open(read, "rb", buffering=0)  # noqa: SIM115 - the thread closes it
        self.so_far = b""

    def begin(self) -> None:
        os.close(self.end)
        self.start()

    def run(self) -> None:
        with self._file:
            while data := self._file.read(1 << 16):
                self.so_far += data

    def text(self, timeout: float | None) -> str:
        self.join(timeout)
        assert not self.is_alive(), "a process that the command has started holds its output"
        return self.so_far.decode().replace("\r\n", "\n")


def _given(text: str | None) -> IO[bytes]:
    """The input of a command: that of the tests, or a pipe with this text."""
    if text is None:
        return open(0, "rb", closefd=False)
    read, write = os.pipe()
    threading.Thread(target=_write, args=(write, text.encode()), daemon=True).start()
    return open(read, "rb", buffering=0)


def _write(number: int, data: bytes) -> None:
    try:
        with open(number, "wb", buffering=0) as file:
            while data:
                data = data[file.write(data) :]
    except BrokenPipeError:  # the command has ended without reading it
        pass


@functools.cache
def _server() -> str:
    place = os.path.join(tempfile.mkdtemp(prefix="rankdbg-commands-"), "socket")
    words = [sys.executable, str(PROGRAMS / "serve_commands.py"), place]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # It outlives the job of the test that is the first to need it: see Job.end().
    general = {name: text for name, text in os.environ.items() if name != "RANKDBG_DIR"}
    server = subprocess.Popen(words, env=general, **pipes)  # type: ignore[call-overload]
    assert server.stdout.readline() == b"serves\n", server.stderr.read()

    def end() -> None:
        server.stdin.close()
        server.wait()
        os.unlink(place)
        os.rmdir(os.path.dirname(place))

    atexit.register(end)
    return place


def _of_a_start(environment: Any) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(OF_A_START)}
