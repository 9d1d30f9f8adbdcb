"""Two debuggers' prompts, typed at as a user does: a line in, until the prompt is back."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

PATIENCE = 300.0
# prompt_toolkit asks the terminal where its cursor is, and waits for that.
_WHERE_IS_THE_CURSOR, _CURSOR = b"\x1b[6n", b"\x1b[1;1R"
# It turns this on when it begins to read a line, and off when it has one.
_READS_A_LINE = b"\x1b[?2004h"
_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class MonarchPrompt:
    """Monarch's debug server over TCP: what nc would carry, without what nc itself costs."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = b""
        self._until("monarch_dbg> ")

    def type(self, line: str, prompt: str = "monarch_dbg> ") -> str:
        self._connection.sendall(line.encode() + b"\n")
        return self._until(prompt)

    def _until(self, prompt: str) -> str:
        while prompt.encode() not in self._read:
            data = self._connection.recv(1 << 16)
            if not data:
                sys.exit("Monarch's debug server hung up")
            self._read += data
        text, _, self._read = self._read.partition(prompt.encode())
        return text.decode()


class ShellPrompt:
    """`rankdbg shell` in a terminal of its own."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._until("rankdbg> ")

    def type(self, line: str, prompt: str = "rankdbg> ") -> str:
        os.write(self._terminal, line.encode() + b"\r")
        return self._until(prompt)

    def _until(self, prompt: str) -> str:
        """What has come when this prompt is read at, without the terminal's escapes."""
        read = b""
        deadline = time.monotonic() + PATIENCE
        while True:
            ready, _, _ = select.select([self._terminal], [], [], deadline - time.monotonic())
            if not ready:
                sys.exit(f"rankdbg's prompt did not come back: {read.decode()}")
            data = os.read(self._terminal, 1 << 16)
            read += data
            for _ in range(data.count(_WHERE_IS_THE_CURSOR)):
                os.write(self._terminal, _CURSOR)
            before, begins, after = read.rpartition(_READS_A_LINE)
            if begins and prompt.strip().encode() in _ESCAPES.sub(b"", after):
                return _ESCAPES.sub(b"", before).decode()


class PipedShell:
    """`rankdbg shell` that reads lines from a pipe: it prints answers, and no prompt."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    def type(self, line: str, word: str, times: int) -> str:
        """The answer, as soon as that word is in so many of its lines."""
        self._stdin.write(line.encode() + b"\n")
        self._stdin.flush()
        answer = b""
        while answer.count(word.encode()) < times or not answer.endswith(b"\n"):
            data = os.read(self._stdout.fileno(), 1 << 16)
            if not data:
                sys.exit(f"rankdbg's shell ended: {answer.decode()}")
            answer += data
        return answer.decode()


@contextlib.contextmanager
def piped_shell(command: Sequence[object], environment: Mapping[str, str]) -> Iterator[PipedShell]:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*map(str, command)], env=environment, stdin=pipe, stdout=pipe
    ) as started:
        yield PipedShell(started)
        assert started.stdin is not None
        started.stdin.close()


@contextlib.contextmanager
def shell(command: Sequence[object], environment: Mapping[str, str]) -> Iterator[ShellPrompt]:
    ours, theirs = pty.openpty()
    started = subprocess.Popen(
        [*map(str, command)],
        env={**environment, "TERM": "xterm", "COLUMNS": "200", "LINES": "60"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield ShellPrompt(ours)
    finally:
        os.close(ours)
        started.terminate()
        started.wait()
